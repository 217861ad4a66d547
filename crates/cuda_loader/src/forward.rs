//! The driver's functions under their own names: `cust` calls these, and each passes the call on.
//!
//! The list holds every function that `cust` mentions, because generic code in a user's crate may be the first to call
//! one, and the few that it has no wrapper for. Signatures are compared with `cust_raw`'s when this file is compiled.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
use std::sync::OnceLock;

use cust_raw::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray,
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUexternalMemory, CUfunc_cache, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeType, CUhostFn, CUjit_option, CUjitInputType,
    CUlimit, CUlinkState, CUmem_advise, CUmodule, CUoccupancyB2DSize, CUpointer_attribute, CUresult, CUsharedconfig,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, CUsurfObject, CUtexObject,
};

use crate::driver::loaded;
use crate::status::from_code;

/// What a function returns when there is no driver; the crate's documentation says why this one.
const NO_DRIVER: CUresult = CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
/// What a function returns when the driver is too old to have it.
const NO_SYMBOL: CUresult = CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;

/// A driver function of type `F`, looked up at the first call.
pub(crate) struct Entry<F> {
    name: &'static str,
    function: OnceLock<Result<F, CUresult>>,
}

impl<F: Copy> Entry<F> {
    /// `name` ends in a NUL.
    pub(crate) const fn new(name: &'static str) -> Self {
        let function = OnceLock::new();
        Self { name, function }
    }

    /// # Safety
    ///
    /// `F` must be the type that `cuda.h` gives the function, with an integer for its result.
    pub(crate) unsafe fn get(&self) -> Result<F, CUresult> {
        *self.function.get_or_init(|| {
            let driver = loaded().map_err(|_| NO_DRIVER)?;
            let name = CStr::from_bytes_with_nul(self.name.as_bytes()).map_err(|_| NO_SYMBOL)?;
            // SAFETY: the caller vouches for the type.
            unsafe { driver.symbol(name) }.map_err(|_| NO_SYMBOL)
        })
    }
}

/// A function's address, for the table that keeps the forwarders in the link.
#[repr(transparent)]
struct Address(*const ());

// SAFETY: the address of a function never changes and is never read through.
unsafe impl Sync for Address {}

macro_rules! forwarders {
    ($(fn $function:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $function($($argument: $type),*) -> CUresult {
                static ENTRY: Entry<unsafe extern "C" fn($($type),*) -> u32> =
                    Entry::new(concat!(stringify!($function), "\0"));
                // SAFETY: the type is cust_raw's, by the check below, except that the result is the integer it is in C.
                match unsafe { ENTRY.get() } {
                    // SAFETY: the caller keeps to the contract of the function that it believes to call: this one.
                    Ok(function) => from_code(unsafe { function($($argument),*) }),
                    Err(code) => code,
                }
            }

            const _: unsafe extern "C" fn($($type),*) -> CUresult = cust_raw::$function;
        )*

        /// Makes the linker take this object file even when it meets this crate before `cust`: a library archive that
        /// nobody has asked for anything yet is passed over. What nobody calls is dropped again as unused sections.
        #[used]
        static FORWARDERS: &[Address] = &[
            Address(cuGetErrorString as *const ()),
            Address(cuGetErrorName as *const ()),
            $(Address($function as *const ()),)*
        ];

        #[cfg(test)]
        const NAMES: &[&str] = &["cuGetErrorString", "cuGetErrorName", $(stringify!($function)),*];
    };
}

forwarders! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(driver_version: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice);
    fn cuDeviceGetAttribute(pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice);
    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice);
    fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint);
    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice);
    fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice);
    fn cuCtxDestroy_v2(ctx: CUcontext);
    fn cuCtxPushCurrent_v2(ctx: CUcontext);
    fn cuCtxPopCurrent_v2(pctx: *mut CUcontext);
    fn cuCtxSetCurrent(ctx: CUcontext);
    fn cuCtxGetCurrent(pctx: *mut CUcontext);
    fn cuCtxGetDevice(device: *mut CUdevice);
    fn cuCtxGetFlags(flags: *mut c_uint);
    fn cuCtxSynchronize();
    fn cuCtxSetLimit(limit: CUlimit, value: usize);
    fn cuCtxGetLimit(pvalue: *mut usize, limit: CUlimit);
    fn cuCtxGetCacheConfig(pconfig: *mut CUfunc_cache);
    fn cuCtxSetCacheConfig(config: CUfunc_cache);
    fn cuCtxGetSharedMemConfig(p_config: *mut CUsharedconfig);
    fn cuCtxSetSharedMemConfig(config: CUsharedconfig);
    fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    fn cuCtxGetStreamPriorityRange(least_priority: *mut c_int, greatest_priority: *mut c_int);
    fn cuModuleLoad(module: *mut CUmodule, fname: *const c_char);
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void);
    fn cuModuleUnload(hmod: CUmodule);
    fn cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char);
    fn cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const c_char);
    fn cuLinkCreate_v2(num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void, state_out: *mut CUlinkState);
    fn cuLinkAddData_v2(state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, name: *const c_char, num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void);
    fn cuLinkComplete(state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize);
    fn cuLinkDestroy(state: CUlinkState);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize);
    fn cuMemFree_v2(dptr: CUdeviceptr);
    fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize);
    fn cuMemFreeHost(p: *mut c_void);
    fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint);
    fn cuMemcpyHtoD_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize);
    fn cuMemcpyDtoH_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize);
    fn cuMemcpyDtoD_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize);
    fn cuMemcpyHtoA_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize);
    fn cuMemcpyAtoH_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize);
    fn cuMemcpy2D_v2(p_copy: *const CUDA_MEMCPY2D);
    fn cuMemcpyHtoDAsync_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize, h_stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream);
    fn cuMemsetD8_v2(dst_device: CUdeviceptr, uc: c_uchar, n: usize);
    fn cuMemsetD16_v2(dst_device: CUdeviceptr, us: c_ushort, n: usize);
    fn cuMemsetD32_v2(dst_device: CUdeviceptr, ui: c_uint, n: usize);
    fn cuMemsetD8Async(dst_device: CUdeviceptr, uc: c_uchar, n: usize, h_stream: CUstream);
    fn cuMemsetD16Async(dst_device: CUdeviceptr, us: c_ushort, n: usize, h_stream: CUstream);
    fn cuMemsetD32Async(dst_device: CUdeviceptr, ui: c_uint, n: usize, h_stream: CUstream);
    fn cuArrayDestroy(h_array: CUarray);
    fn cuArray3DCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR);
    fn cuArray3DGetDescriptor_v2(p_array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, h_array: CUarray);
    fn cuMemFreeAsync(dptr: CUdeviceptr, h_stream: CUstream);
    fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, h_stream: CUstream);
    fn cuMemPrefetchAsync(dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice, h_stream: CUstream);
    fn cuMemAdvise(dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice);
    fn cuStreamCreateWithPriority(ph_stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamGetPriority(h_stream: CUstream, priority: *mut c_int);
    fn cuStreamGetFlags(h_stream: CUstream, flags: *mut c_uint);
    fn cuStreamWaitEvent(h_stream: CUstream, h_event: CUevent, flags: c_uint);
    fn cuStreamSynchronize(h_stream: CUstream);
    fn cuStreamDestroy_v2(h_stream: CUstream);
    fn cuEventCreate(ph_event: *mut CUevent, flags: c_uint);
    fn cuEventRecord(h_event: CUevent, h_stream: CUstream);
    fn cuEventQuery(h_event: CUevent);
    fn cuEventSynchronize(h_event: CUevent);
    fn cuEventDestroy_v2(h_event: CUevent);
    fn cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
    fn cuImportExternalMemory(ext_mem_out: *mut CUexternalMemory, mem_handle_desc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    fn cuExternalMemoryGetMappedBuffer(dev_ptr: *mut CUdeviceptr, ext_mem: CUexternalMemory, buffer_desc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    fn cuDestroyExternalMemory(ext_mem: CUexternalMemory);
    fn cuFuncGetAttribute(pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction);
    fn cuFuncSetCacheConfig(hfunc: CUfunction, config: CUfunc_cache);
    fn cuFuncSetSharedMemConfig(hfunc: CUfunction, config: CUsharedconfig);
    fn cuLaunchKernel(f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream, kernel_params: *mut *mut c_void, extra: *mut *mut c_void);
    fn cuLaunchHostFunc(h_stream: CUstream, function: CUhostFn, user_data: *mut c_void);
    fn cuGraphCreate(ph_graph: *mut CUgraph, flags: c_uint);
    fn cuGraphAddKernelNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS);
    fn cuGraphKernelNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS);
    fn cuGraphNodeGetType(h_node: CUgraphNode, kind: *mut CUgraphNodeType);
    fn cuGraphGetNodes(h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
    fn cuGraphGetEdges(h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize);
    fn cuGraphDestroy(h_graph: CUgraph);
    fn cuGraphDebugDotPrint(h_graph: CUgraph, path: *const c_char, flags: c_uint);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_smem_size: usize);
    fn cuOccupancyMaxPotentialBlockSize(min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int);
    fn cuOccupancyAvailableDynamicSMemPerBlock(dynamic_smem_size: *mut usize, func: CUfunction, num_blocks: c_int, block_size: c_int);
    fn cuTexObjectCreate(p_tex_object: *mut CUtexObject, p_res_desc: *const CUDA_RESOURCE_DESC, p_tex_desc: *const CUDA_TEXTURE_DESC, p_res_view_desc: *const CUDA_RESOURCE_VIEW_DESC);
    fn cuTexObjectDestroy(tex_object: CUtexObject);
    fn cuTexObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject);
    fn cuTexObjectGetResourceViewDesc(p_res_view_desc: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject);
    fn cuSurfObjectCreate(p_surf_object: *mut CUsurfObject, p_res_desc: *const CUDA_RESOURCE_DESC);
    fn cuSurfObjectDestroy(surf_object: CUsurfObject);
    fn cuSurfObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject);

    // Without a wrapper in cust.
    fn cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr);
    fn cuStreamBeginCapture_v2(h_stream: CUstream, mode: CUstreamCaptureMode);
    fn cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph);
    fn cuStreamIsCapturing(h_stream: CUstream, capture_status: *mut CUstreamCaptureStatus);
    fn cuStreamQuery(h_stream: CUstream);
    fn cuStreamGetCtx(h_stream: CUstream, pctx: *mut CUcontext);
    fn cuFuncSetAttribute(hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int);
    fn cuGraphInstantiateWithFlags(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(h_graph_exec: CUgraphExec, h_stream: CUstream);
    fn cuGraphExecDestroy(h_graph_exec: CUgraphExec);
}

type DescribeError = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

/// The driver describes its error codes; without a driver, the one code that then occurs still needs a description,
/// because `cust`'s errors panic when they are printed and this call fails.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry<DescribeError> = Entry::new("cuGetErrorString\0");
    // SAFETY: this is the function's type; the caller passes a place for the result.
    unsafe { describe(&ENTRY, error, text, c"no NVIDIA driver could be loaded") }
}

/// As [`cuGetErrorString`], for the code's name.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry<DescribeError> = Entry::new("cuGetErrorName\0");
    // SAFETY: this is the function's type; the caller passes a place for the result.
    unsafe { describe(&ENTRY, error, text, c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED") }
}

/// `cuTensorMapEncodeTiled` as `cuda.h` declares it, with integers for its enumerations. It is newer than `cust_raw`.
type EncodeTiled = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
) -> u32;

/// Describes a tensor in device memory, and the boxes that copies take of it, to the hardware:
/// `cuTensorMapEncodeTiled`, without interleaving or steps, with zeros outside of the tensor.
///
/// `data_type` is a `CUtensorMapDataType`, followed by a `CUtensorMapSwizzle` and a `CUtensorMapL2promotion`. Extents
/// and strides are the tensor's, innermost dimension first; strides, in bytes, are those of the other dimensions.
///
/// # Safety
///
/// `map` must be valid for a write of 128 bytes and be aligned to 64.
pub unsafe fn encode_tensor_map<const RANK: usize, const STRIDES: usize>(
    map: *mut c_void,
    data_type: u32,
    address: u64,
    extents: &[u64; RANK],
    strides: &[u64; STRIDES],
    boxed: &[u32; RANK],
    [swizzle, l2_promotion]: [u32; 2],
) -> CUresult {
    const { assert!(STRIDES + 1 == RANK) };
    static ENTRY: Entry<EncodeTiled> = Entry::new("cuTensorMapEncodeTiled\0");
    // SAFETY: this is the function's type.
    match unsafe { ENTRY.get() } {
        // SAFETY: arrays as long as the rank; the caller vouches for the map.
        Ok(function) => from_code(unsafe {
            function(
                map,
                data_type,
                RANK as c_uint,
                address as *mut c_void,
                extents.as_ptr(),
                strides.as_ptr(),
                boxed.as_ptr(),
                [1; RANK].as_ptr(),
                0,
                swizzle,
                l2_promotion,
                0,
            )
        }),
        Err(code) => code,
    }
}

/// `CUlaunchConfig`, less what is always the same.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Blocks along x and y.
    pub blocks: [u32; 2],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: CUstream,
    /// Neighbouring blocks along x that are a cluster; 1 if there are no clusters.
    pub cluster: u32,
    /// Whether it may begin while the grid before it in the stream still runs, as soon as that one allows it.
    pub beside: bool,
}

#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
    attributes: *const LaunchAttribute,
    attribute_count: c_uint,
}

/// `CUlaunchAttribute`, whose value is a union of 64 bytes.
#[repr(C, align(8))]
struct LaunchAttribute {
    id: c_uint,
    padding: c_uint,
    value: [c_uint; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
    const CLUSTER_DIMENSION: c_uint = 4;

    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
    const PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;

    fn new(id: c_uint, first: [c_uint; 3]) -> Self {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&first);
        Self { id, padding: 0, value }
    }
}

type LaunchKernelEx = unsafe extern "C" fn(*const LaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void) -> u32;

type OccupancyMaxActiveClusters = unsafe extern "C" fn(*mut c_int, CUfunction, *const LaunchConfig) -> u32;

impl Grid {
    fn attributes(&self) -> [LaunchAttribute; 2] {
        let cluster = [self.cluster, 1, 1];
        let beside = [self.beside.into(), 0, 0];
        [
            LaunchAttribute::new(LaunchAttribute::CLUSTER_DIMENSION, cluster),
            LaunchAttribute::new(LaunchAttribute::PROGRAMMATIC_STREAM_SERIALIZATION, beside),
        ]
    }

    fn config(&self, attributes: &[LaunchAttribute]) -> LaunchConfig {
        LaunchConfig {
            grid: [self.blocks[0], self.blocks[1], 1],
            block: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
            stream: self.stream,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as c_uint,
        }
    }
}

/// Launches a grid by `cuLaunchKernelEx`, for compute capability 9.0 and later if it has clusters or may begin beside
/// another one. A driver that is too old for the function says `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
///
/// # Safety
///
/// As `cuLaunchKernel`. A kernel that runs beside another one must not depend on what the grid before it writes, unless
/// it waits for that, and end after it.
pub unsafe fn launch_grid(function: CUfunction, grid: Grid, parameters: *mut *mut c_void) -> CUresult {
    static ENTRY: Entry<LaunchKernelEx> = Entry::new("cuLaunchKernelEx\0");
    let attributes = grid.attributes();
    let config = grid.config(&attributes);
    // SAFETY: this is the function's type.
    match unsafe { ENTRY.get() } {
        // SAFETY: the caller's promise.
        Ok(launch) => from_code(unsafe { launch(&raw const config, function, parameters, std::ptr::null_mut()) }),
        Err(code) => code,
    }
}

/// How many clusters of such a grid the device of the current context runs at the same time:
/// `cuOccupancyMaxActiveClusters`, in `count`, for compute capability 9.0 and later.
///
/// # Safety
///
/// The function must be one of the current context.
pub unsafe fn most_active_clusters(count: &mut c_int, function: CUfunction, grid: Grid) -> CUresult {
    static ENTRY: Entry<OccupancyMaxActiveClusters> = Entry::new("cuOccupancyMaxActiveClusters\0");
    let attributes = grid.attributes();
    let config = grid.config(&attributes);
    // SAFETY: this is the function's type.
    match unsafe { ENTRY.get() } {
        // SAFETY: the caller's promise; writes one integer.
        Ok(ask) => from_code(unsafe { ask(count, function, &raw const config) }),
        Err(code) => code,
    }
}

const _: [unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult; 2] =
    [cust_raw::cuGetErrorString, cust_raw::cuGetErrorName];

/// # Safety
///
/// `entry` must be one of the two functions that describe errors, and `text` valid for a write.
unsafe fn describe(
    entry: &Entry<DescribeError>,
    error: CUresult,
    text: *mut *const c_char,
    without_driver: &'static CStr,
) -> CUresult {
    // SAFETY: the caller vouches for the entry.
    match unsafe { entry.get() } {
        // SAFETY: the caller vouches for `text`.
        Ok(function) => from_code(unsafe { function(error as u32, text) }),
        Err(NO_DRIVER) => {
            // SAFETY: the caller vouches for `text`.
            unsafe { text.write(without_driver.as_ptr()) };
            CUresult::CUDA_SUCCESS
        }
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    #[test]
    fn every_function_that_cust_mentions_has_a_forwarder() {
        let Some(cust) = package_dir("cust") else {
            eprintln!("skipped: cargo does not say where cust's source is");
            return;
        };
        let Some(cust_raw) = package_dir("cust_raw") else {
            eprintln!("skipped: cargo does not say where cust_raw's source is");
            return;
        };
        let declared = functions_declared_in(&cust_raw.join("src/cuda.rs"));
        let mentioned = words_below(&cust.join("src"));
        let missing: Vec<_> =
            mentioned.intersection(&declared).filter(|name| !NAMES.contains(&name.as_str())).collect();
        assert!(mentioned.contains("cuInit"), "cust's source was not read");
        assert!(missing.is_empty(), "no forwarder for {missing:?}");
    }

    /// Where cargo keeps a package's source.
    fn package_dir(name: &str) -> Option<PathBuf> {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--offline", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .ok()?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let packages = metadata["packages"].as_array()?;
        let package = packages.iter().find(|package| package["name"] == name)?;
        let manifest = Path::new(package["manifest_path"].as_str()?);
        manifest.parent().map(Path::to_owned)
    }

    fn functions_declared_in(bindings: &Path) -> BTreeSet<String> {
        let text = fs::read_to_string(bindings).unwrap();
        let declarations = text.split("pub fn ").skip(1);
        declarations.filter_map(|rest| words(rest).next().map(str::to_owned)).collect()
    }

    fn words_below(dir: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.append(&mut words_below(&path));
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.extend(words(&text).map(str::to_owned));
            }
        }
        found
    }

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    }
}
