//! Plans by measurement on a GPU: what was measured, what is remembered, and that the results are right.
#![cfg(feature = "cuda")]

mod geometries;
mod gpu;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use conv_transpose::{
    ConvTranspose, Precision, Shape,
    cuda::{Algorithm, Autotune, Device, Options, Plan},
};
use cust::stream::{Stream, StreamFlags};
use geometries::{Case, Draw, Geometry, Stop, cases, for_all};
use gpu::{computed, expected, whole_numbers};
use proptest::prelude::*;

/// Enough for all candidates, on any GPU.
const ENOUGH: Duration = Duration::from_secs(600);

/// An autotune, and the descriptions of the candidates that it has measured.
fn listened_to(autotune: Autotune) -> (Autotune, Arc<Mutex<Vec<String>>>) {
    let measured = Arc::new(Mutex::new(Vec::new()));
    let heard = measured.clone();
    let autotune = autotune.on_progress(move |progress| {
        let mut heard = heard.lock().unwrap();
        heard.push(progress.candidate.to_owned());
        assert!(progress.best <= progress.time && progress.best > Duration::ZERO);
        assert_eq!(progress.measured, heard.len());
        assert!(progress.measured <= progress.candidates);
    });
    (autotune, measured)
}

/// Tunes, asks again, and takes the decision through a file; checks the result of the plan.
fn check<const D: usize>(device: &Device, layer: &ConvTranspose<D>, input: Shape<D>, options: Options) {
    let chosen = Plan::new(device, layer, input, options).unwrap().describe();
    let (autotune, measured) = listened_to(Autotune::new());
    let mut autotune = autotune.time_limit(ENOUGH);
    let plan = autotune.plan(device, layer, input, options).unwrap();
    let candidates = measured.lock().unwrap().split_off(0);
    gpu::say(&format!("cuda autotune: {} of {} candidates, chosen was {chosen}", plan.describe(), candidates.len()));
    assert_eq!(candidates[0], chosen, "the model's choice is measured first");
    assert!(candidates.len() > 1);
    assert!(candidates.contains(&plan.describe()), "{}", plan.describe());
    check_result(device, layer, &plan);

    let again = autotune.plan(device, layer, input, options).unwrap();
    assert_eq!(again.describe(), plan.describe());
    assert!(measured.lock().unwrap().is_empty(), "what is known is not measured again");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("autotune.json");
    autotune.save(&path).unwrap();
    let (mut loaded, measured) = listened_to(Autotune::load(&path).unwrap());
    assert_eq!(loaded.len(), 1);
    let plan = loaded.plan(device, layer, input, options).unwrap();
    assert_eq!(plan.describe(), again.describe());
    assert!(measured.lock().unwrap().is_empty(), "what was loaded is not measured again");
    check_result(device, layer, &plan);
}

/// Small whole numbers are exact in either precision.
fn check_result<const D: usize>(device: &Device, layer: &ConvTranspose<D>, plan: &Plan<D>) {
    let input = whole_numbers(plan.problem().input_shape(), 1);
    let weight = whole_numbers(layer.weight_shape(), 2);
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let mut output = device.zeroed(plan.output_shape()).unwrap();
    let (device_input, device_weight) = (device.upload(&input).unwrap(), device.upload(&weight).unwrap());
    plan.forward(&stream, &device_input, &device_weight, None, &mut output).unwrap();
    let output = output.download(&stream).unwrap();
    assert_eq!(output.as_slice(), expected(layer, &input, &weight, None), "{}", plan.describe());
}

#[test]
fn tuned_plans_are_measured_remembered_and_right() {
    let Some(device) = gpu::device("tuned_plans_are_measured_remembered_and_right") else { return };
    for precision in [Precision::F32, Precision::Tf32] {
        let options = Options::default().precision(precision);
        let layer = ConvTranspose::builder(32, 24, [4, 4]).stride([2, 2]).padding([1, 1]).build().unwrap();
        check(&device, &layer, Shape::batched(2, 32, [14, 14]), options);
        let depthwise = ConvTranspose::builder(8, 8, [16]).stride([8]).padding([4]).groups(8).build().unwrap();
        check(&device, &depthwise, Shape::batched(1, 8, [100]), options);
        let volume = ConvTranspose::builder(8, 16, [3, 3, 3]).stride([2, 1, 2]).build().unwrap();
        check(&device, &volume, Shape::unbatched(8, [4, 5, 6]), options);
    }
}

#[test]
fn without_time_the_choice_of_the_model_is_all_that_is_measured() {
    let Some(device) = gpu::device("without_time_the_choice_of_the_model_is_all_that_is_measured") else { return };
    let layer = ConvTranspose::builder(32, 24, [4, 4]).stride([2, 2]).build().unwrap();
    let input = Shape::batched(2, 32, [14, 14]);
    let (autotune, measured) = listened_to(Autotune::new());
    let plan = autotune.time_limit(Duration::ZERO).plan(&device, &layer, input, Options::default()).unwrap();
    assert_eq!(*measured.lock().unwrap(), [plan.describe()]);
    assert_eq!(plan.describe(), Plan::new(&device, &layer, input, Options::default()).unwrap().describe());
}

#[test]
fn nothing_is_measured_where_there_is_nothing_to_choose() {
    let Some(device) = gpu::device("nothing_is_measured_where_there_is_nothing_to_choose") else { return };
    let layer = ConvTranspose::builder(32, 24, [4, 4]).stride([2, 2]).build().unwrap();
    let (mut autotune, measured) = listened_to(Autotune::new());
    for (batch, algorithm) in [(2, Algorithm::Gather), (2, Algorithm::Scatter), (0, Algorithm::Auto)] {
        let options = Options::default().algorithm(algorithm);
        let plan = autotune.plan(&device, &layer, Shape::batched(batch, 32, [14, 14]), options).unwrap();
        check_result(&device, &layer, &plan);
    }
    assert!(autotune.is_empty() && measured.lock().unwrap().is_empty());
}

#[test]
fn decisions_of_one_precision_or_algorithm_are_not_those_of_another() {
    let Some(device) = gpu::device("decisions_of_one_precision_or_algorithm_are_not_those_of_another") else { return };
    let layer = ConvTranspose::builder(32, 24, [4, 4]).stride([2, 2]).build().unwrap();
    let mut autotune = Autotune::new().time_limit(Duration::ZERO);
    let cases = [
        (2, Options::default()),
        (3, Options::default()),
        (2, Options::default().precision(Precision::Tf32)),
        (2, Options::default()),
    ];
    let known = cases.map(|(batch, options)| {
        autotune.plan(&device, &layer, Shape::batched(batch, 32, [14, 14]), options).unwrap();
        autotune.len()
    });
    assert_eq!(known, [1, 2, 3, 3]);
}

/// How many random layers of each number of axes; see [`Draw`].
const RANDOM_LAYERS: u32 = 48;

/// Every way that may be measured is right, also one that the model would never choose.
#[test]
fn every_way_of_random_layers_is_right() {
    let devices = gpu::devices("every_way_of_random_layers_is_right");
    if devices.is_empty() {
        return;
    }
    check_ways_of_random_layers::<1>(devices.clone());
    check_ways_of_random_layers::<2>(devices.clone());
    check_ways_of_random_layers::<3>(devices);
}

/// Of few channels; of many output channels, so that inputs are packed; of some of both, and of many input channels.
fn check_ways_of_random_layers<const D: usize>(devices: Vec<Device>) {
    let factors = prop_oneof![Just([1, 1]), Just([1, 128]), Just([20, 12]), Just([48, 1])];
    let layers = (cases::<D>(), factors).prop_map(|(case, [of_input, of_output])| {
        let Geometry { in_per_group, out_per_group, .. } = case.geometry;
        let (in_per_group, out_per_group) = (of_input * in_per_group, of_output * out_per_group);
        Case { geometry: Geometry { in_per_group, out_per_group, ..case.geometry }, ..case }
    });
    let tally = for_all(Draw::usual(RANDOM_LAYERS), layers, move |case| check_ways(&devices, case));
    let tally = tally.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.ran > 0);
}

/// Each way to compute a layer, on each device and in each precision, on integers, which are exact in all of them.
fn check_ways<const D: usize>(devices: &[Device], case: &Case<D>) -> Result<(), Stop> {
    let (layer, data) = (case.geometry.layer(), case.integers());
    let bias = data.bias.unwrap_or_else(|| vec![0.0; case.geometry.out_channels()]);
    let exact = expected(&layer, &data.input, &data.weight, Some(&bias));
    for device in devices {
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
        let [input, weight] = [&data.input, &data.weight].map(|tensor| device.upload(tensor).unwrap());
        let bias = device.upload_slice(&bias).unwrap();
        for precision in [Precision::Tf32, Precision::F32] {
            let options = Options::default().precision(precision).specialised(false);
            for plan in Plan::ways(device, &layer, case.geometry.input_shape(), options).unwrap() {
                let output = computed(device, &stream, &plan, &input, &weight, &bias);
                if output.as_slice() != exact {
                    let (architecture, described) = (device.architecture(), plan.describe());
                    return Err(Stop::Failed(format!("{architecture}, {precision}, {described} is wrong")));
                }
            }
        }
    }
    Ok(())
}
