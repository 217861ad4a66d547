//! The example `upsample`, run as a process on pictures of every kind, and on things that are no pictures.

mod formats;
mod pictures;
mod quality;
mod refusals;
mod transparency;
mod workshop;
