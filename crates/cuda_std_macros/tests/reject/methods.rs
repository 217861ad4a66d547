use cuda_std_macros::kernel;

struct Tile;

impl Tile {
    #[kernel]
    pub unsafe fn fill(self) {}

    #[kernel]
    pub unsafe fn clear(&mut self) {}
}

fn main() {}
