//! The GPUs that a PTX file is assembled for.

use anyhow::Context;

/// Compute capabilities of the generations in use, from Turing to Blackwell.
const GENERATIONS: &[u32] = &[75, 80, 86, 89, 90, 100, 120];

/// The targets of PTX for `arch`: the generations from its own on that have no newer PTX among `all`, or itself alone
/// where its instructions are those of one generation (`sm_90a`) or of one family (`sm_100f`). A generation that has
/// such PTX of its own among `all` runs no other.
pub(super) fn of(arch: &str, all: &[&str]) -> anyhow::Result<Vec<String>> {
    let capability = arch.strip_prefix("sm_").with_context(|| format!("{arch} is no GPU architecture"))?;
    if capability.ends_with(['a', 'f']) {
        return Ok(vec![arch.to_owned()]);
    }
    let oldest: u32 = capability.parse().with_context(|| format!("{arch} is no GPU architecture"))?;
    let newer =
        all.iter().filter_map(|other| other.strip_prefix("sm_")?.parse().ok()).filter(|&other: &u32| other > oldest);
    let next = newer.min().unwrap_or(u32::MAX);
    let generations = GENERATIONS.iter().filter(|&&generation| (oldest..next).contains(&generation));
    let able = generations.map(|generation| format!("sm_{generation}"));
    Ok(able.filter(|target| !all.contains(&format!("{target}a").as_str())).collect())
}

/// Whether machine code for this target is for a single generation, the only one that runs such PTX.
pub(super) fn is_single(target: &str) -> bool {
    target.ends_with('a')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_run_the_newest_ptx_that_they_can() {
        assert_eq!(of("sm_70", &[]).unwrap().len(), GENERATIONS.len());
        assert_eq!(of("sm_80", &[]).unwrap(), ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]);
        assert_eq!(of("sm_100", &[]).unwrap(), ["sm_100", "sm_120"]);
        assert_eq!(of("sm_70", &["sm_70", "sm_80"]).unwrap(), ["sm_75"]);
        assert_eq!(of("sm_80", &["sm_70", "sm_80"]).unwrap(), of("sm_80", &[]).unwrap());
    }

    #[test]
    fn instructions_of_one_generation_run_on_that_one_only() {
        assert_eq!(of("sm_90a", &[]).unwrap(), ["sm_90a"]);
        assert_eq!(of("sm_100f", &[]).unwrap(), ["sm_100f"]);
    }

    #[test]
    fn a_generation_with_ptx_of_its_own_runs_no_other() {
        let all = ["sm_80", "sm_90a"];
        assert_eq!(of("sm_80", &all).unwrap(), ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]);
        assert_eq!(of("sm_90a", &all).unwrap(), ["sm_90a"]);
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "90", "compute_90", "sm_", "sm_x"] {
            assert!(of(name, &[]).is_err(), "{name}");
        }
    }
}
