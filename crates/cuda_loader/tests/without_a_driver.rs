//! A program that uses `cust` starts on any machine, and learns there whether it has a driver.

use cust::error::CudaError;

#[test]
fn cust_answers_with_an_error_or_works() {
    let initialised = cust::init(cust::CudaFlags::empty());
    match cuda_loader::driver() {
        Err(none) => {
            assert!(!none.attempts().is_empty());
            assert_eq!(initialised, Err(CudaError::SharedObjectInitFailed));
        }
        Ok(_) => assert_ne!(initialised, Err(CudaError::SharedObjectInitFailed)),
    }
}

#[test]
fn cust_errors_can_be_printed_without_a_driver() {
    let text = CudaError::SharedObjectInitFailed.to_string();
    match cuda_loader::driver() {
        Err(_) => assert!(text.contains("no NVIDIA driver"), "{text}"),
        Ok(_) => assert!(!text.is_empty()),
    }
}

#[test]
fn a_library_is_not_loaded_without_a_driver() {
    if cuda_loader::driver().is_err() {
        // SAFETY: there are no options whose values could be wrong.
        let loaded = unsafe { cuda_loader::load_library(c".version 7.0", [], []) };
        assert_eq!(loaded.err(), Some(cust::sys::CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn this_program_does_not_need_libcuda_to_start() {
    let program = std::env::current_exe().expect("a test knows its own path");
    let output = match std::process::Command::new("readelf").arg("-d").arg(program).output() {
        Ok(output) if output.status.success() => output,
        _ => return eprintln!("skipped: readelf does not run here"),
    };
    let dynamic = String::from_utf8_lossy(&output.stdout);
    assert!(dynamic.contains("NEEDED"), "{dynamic}");
    assert!(!dynamic.contains("libcuda"), "{dynamic}");
}
