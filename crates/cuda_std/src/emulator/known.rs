//! What a thread knows to have happened before: a vector clock with an entry for each thread of its block.
//!
//! Threads that know the same share it, until one of them learns more: mostly a whole warp learns one thing.

use std::rc::Rc;
use std::vec::Vec;

use super::order::{LANES, join};

/// A time for each lane of a warp.
pub(super) type Times = [u32; LANES];

/// For each thread of a block: what it did at times below this one happened before.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// By warp; those that are missing are zero.
    warps: Option<Rc<Vec<Times>>>,
}

impl Known {
    pub(super) const NOTHING: Self = Self { warps: None };

    pub(super) fn of_warp(&self, warp: usize) -> &Times {
        const NEVER: &Times = &[0; LANES];
        self.warps.as_ref().and_then(|warps| warps.get(warp)).unwrap_or(NEVER)
    }

    /// Whether both are one, not merely alike.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.warps, &other.warps) {
            (Some(own), Some(others)) => Rc::ptr_eq(own, others),
            (own, others) => own.is_none() && others.is_none(),
        }
    }

    /// Adds what another one knows.
    pub(super) fn learn(&mut self, other: &Self) {
        let Some(others) = &other.warps else { return };
        match &mut self.warps {
            Some(own) if Rc::ptr_eq(own, others) || covers(own, others) => {}
            Some(own) if !covers(others, own) => {
                let own = Rc::make_mut(own);
                own.resize(own.len().max(others.len()), [0; LANES]);
                own.iter_mut().zip(others.iter()).for_each(|(all, one)| join(all, one));
            }
            own => *own = Some(Rc::clone(others)),
        }
    }

    /// Adds what is known of one warp.
    pub(super) fn learn_of_warp(&mut self, warp: usize, times: &Times) {
        let warps = Rc::make_mut(self.warps.get_or_insert_default());
        warps.resize(warps.len().max(warp + 1), [0; LANES]);
        join(&mut warps[warp], times);
    }
}

/// Whether those that know the one know all of the other.
fn covers(one: &[Times], other: &[Times]) -> bool {
    let mut pairs = one.iter().zip(other);
    other.len() <= one.len() && pairs.all(|(one, other)| one.iter().zip(other).all(|(one, other)| one >= other))
}

/// What there is to learn in one place, for many of whom most know the same before.
pub(super) struct Lesson {
    content: Known,
    /// What the last to learn knew before and after, for the next one to share.
    before: Known,
    after: Known,
}

impl Lesson {
    pub(super) fn new(content: Known) -> Self {
        Self { before: Known::NOTHING, after: content.clone(), content }
    }

    pub(super) fn content(&self) -> &Known {
        &self.content
    }

    pub(super) fn teach(&mut self, known: &mut Known) {
        if !known.is(&self.before) {
            self.before = known.clone();
            known.learn(&self.content);
            self.after = known.clone();
        }
        *known = self.after.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(warp: usize, time: u32) -> Known {
        let mut known = Known::NOTHING;
        known.learn_of_warp(warp, &[time; LANES]);
        known
    }

    #[test]
    fn what_is_learnt_adds_up_and_is_shared() {
        let mut lesson = Lesson::new(known(1, 5));
        let mut pupils = [known(0, 3), Known::NOTHING];
        let same = pupils[0].clone();
        for pupil in &mut pupils {
            lesson.teach(pupil);
        }
        assert_eq!((pupils[0].of_warp(0)[7], pupils[0].of_warp(1)[7], pupils[0].of_warp(2)[7]), (3, 5, 0));
        assert_eq!(pupils[1].of_warp(0)[7], 0);
        let [mut one, mut two] = [same.clone(), same];
        lesson.teach(&mut one);
        lesson.teach(&mut two);
        assert!(one.is(&two) && one.of_warp(1)[0] == 5);
    }

    #[test]
    fn who_knows_it_all_keeps_what_it_has() {
        let mut all = known(1, 5);
        let before = all.clone();
        all.learn(&known(1, 4));
        assert!(all.is(&before));
        all.learn(&known(2, 4));
        assert!(!all.is(&before) && before.of_warp(2)[0] == 0);
    }
}
