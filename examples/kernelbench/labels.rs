//! Where the labels of a chart's points go: near their point, and not over another point or label. All in pixels.

pub const FONT_SIZE: i32 = 16;
/// Advance of a letter in this size of the monospaced font, rounded up.
const LETTER: i32 = 10;
/// Half the extent of a point's mark, with some air.
const MARK: i32 = 7;

/// A rectangle, by its left, top, right and bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place([i32; 4]);

impl Place {
    fn around((x, y): (i32, i32), half_width: i32, half_height: i32) -> Self {
        Self([x - half_width, y - half_height, x + half_width, y + half_height])
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
    }

    /// Where the text begins.
    pub fn corner(&self) -> (i32, i32) {
        (self.0[0] + 2, self.0[1])
    }

    /// Where a line from the point to the label ends: the nearest position of the rectangle.
    pub fn anchor(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.0[0], self.0[2]), y.clamp(self.0[1], self.0[3]))
    }
}

/// A place for the label of each point, one after the other: the nearest that is free, or one beside the point if none
/// is.
pub fn places(points: &[(i32, i32)], labels: &[&str]) -> Vec<Place> {
    let mut taken: Vec<Place> = points.iter().map(|&point| Place::around(point, MARK, MARK)).collect();
    for (&point, label) in points.iter().zip(labels) {
        let width = LETTER * label.chars().count() as i32;
        let free = |place: &Place| !taken.iter().any(|other| place.overlaps(other));
        let place = candidates(point, width).find(free).or_else(|| candidates(point, width).next());
        taken.extend(place);
    }
    taken.split_off(points.len())
}

/// Eight directions, ever further away.
fn candidates((x, y): (i32, i32), width: i32) -> impl Iterator<Item = Place> {
    let directions = [(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, 1), (-1, -1), (1, 1)];
    let (half_width, half_height) = (width / 2, FONT_SIZE / 2);
    (0..8).flat_map(move |ring| {
        directions.into_iter().map(move |(dx, dy)| {
            let (reach_x, reach_y) = (MARK + half_width + 10 * ring, MARK + half_height + 10 * ring);
            Place::around((x + dx * reach_x, y + dy * reach_y), half_width, half_height)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_label_stands_to_the_right_of_its_point() {
        let [place] = places(&[(100, 100)], &["70"])[..] else { panic!("one label") };
        assert_eq!(place, Place([107, 92, 127, 108]));
    }

    #[test]
    fn labels_of_a_crowd_cover_neither_each_other_nor_a_point() {
        let points: Vec<_> = (0..12).map(|i| (100 + 6 * i, 100 + 5 * (i % 3))).collect();
        let places = places(&points, &["99"; 12]);
        for (index, place) in places.iter().enumerate() {
            assert!(!places[..index].iter().any(|other| place.overlaps(other)));
            assert!(!points.iter().any(|&point| place.overlaps(&Place::around(point, MARK, MARK))));
        }
    }
}
