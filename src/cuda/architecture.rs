//! Which GPUs run the PTX of an architecture.

/// What PTX is compiled for: a compute capability, and whether it is that one alone.
///
/// A later capability is a greater architecture, and so is one with the instructions of a single generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Architecture {
    capability: (u32, u32),
    exact: bool,
}

impl Architecture {
    /// Reads the compiler's name: `sm_80` runs on compute capability 8.0 and all after it, `sm_90a` on 9.0 alone.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("sm_")?;
        let digits = name.strip_suffix('a');
        let number: u32 = digits.unwrap_or(name).parse().ok()?;
        Some(Self { capability: (number / 10, number % 10), exact: digits.is_some() })
    }

    /// The oldest compute capability that runs it.
    pub(super) fn capability(self) -> (u32, u32) {
        self.capability
    }

    /// Whether a GPU of this compute capability runs it.
    pub(super) fn runs_on(self, capability: (u32, u32)) -> bool {
        if self.exact { self.capability == capability } else { self.capability <= capability }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn architecture(name: &str) -> Architecture {
        Architecture::parse(name).expect(name)
    }

    #[test]
    fn newer_gpus_run_older_architectures() {
        let ampere = architecture("sm_80");
        assert_eq!(ampere.capability(), (8, 0));
        let runs = [(7, 5), (8, 0), (8, 9), (9, 0), (12, 1)].map(|capability| ampere.runs_on(capability));
        assert_eq!(runs, [false, true, true, true, true]);
    }

    #[test]
    fn instructions_of_one_generation_run_on_that_one_only() {
        let hopper = architecture("sm_90a");
        assert_eq!(hopper.capability(), (9, 0));
        let runs = [(8, 9), (9, 0), (10, 0), (12, 0)].map(|capability| hopper.runs_on(capability));
        assert_eq!(runs, [false, true, false, false]);
    }

    #[test]
    fn architectures_are_in_order() {
        let names = ["sm_70", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"];
        assert!(names.map(architecture).is_sorted());
    }

    #[test]
    fn other_names_are_none() {
        for name in ["", "90", "sm_", "sm_a", "sm_x", "sm_100f", "compute_90"] {
            assert_eq!(Architecture::parse(name), None, "{name}");
        }
    }
}
