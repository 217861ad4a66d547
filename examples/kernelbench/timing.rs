//! The median time of something on a stream.

use anyhow::Result;
use cust::{
    event::{Event, EventFlags},
    stream::Stream,
};

/// Milliseconds that the GPU takes for what `enqueue` puts on the stream: the median of some calls, which get their
/// number.
///
/// Nothing waits between the calls, so the host stays ahead of the GPU and its own time does not count.
pub fn median_ms(stream: &Stream, calls: usize, mut enqueue: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let events = (0..=calls).map(|_| Event::new(EventFlags::DEFAULT)).collect::<Result<Vec<_>, _>>()?;
    events[0].record(stream)?;
    for (call, event) in events[1..].iter().enumerate() {
        enqueue(call)?;
        event.record(stream)?;
    }
    stream.synchronize()?;
    let between = |pair: &[Event]| Ok(f64::from(pair[1].elapsed_time_f32(&pair[0])?));
    let mut times = events.windows(2).map(between).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
