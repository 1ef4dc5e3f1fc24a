//! Time and memory of child processes.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Cost of one run of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall-clock time from before `fork` to after its end.
    pub wall: Duration,
    /// Processor time of all its threads, in user and in kernel mode.
    pub processor: Duration,
    /// Largest resident set size in bytes, as the kernel reports it through `wait4`.
    pub peak_memory: u64,
}

/// Runs `command` to its end. An exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<Cost> {
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage: it holds integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; `child` is ours and nothing else waits for it.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    let wall = started.elapsed();
    if waited < 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("cannot wait for {command:?}"));
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        bail!("{command:?} ended with wait status {status:#x}");
    }
    let processor = duration(usage.ru_utime) + duration(usage.ru_stime);
    Ok(Cost { wall, processor, peak_memory: usage.ru_maxrss.unsigned_abs() * 1024 })
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}

/// Median of some measurements, with the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Smallest value.
    pub minimum: f64,
    /// Middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Largest value.
    pub maximum: f64,
}

impl Spread {
    /// Summarises `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&minimum, &maximum) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) };
        Some(Self { minimum, median, maximum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_no_values() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).map(|spread| spread.median), Some(2.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { minimum: 1.0, median: 2.5, maximum: 4.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn cost_has_time_and_memory_and_failure_is_an_error() {
        let cost = run(Command::new("sleep").arg("0.02")).expect("sleep succeeds");
        assert!(cost.wall >= Duration::from_millis(20));
        assert!(cost.peak_memory > 100_000);
        assert!(run(&mut Command::new("false")).is_err());
    }
}
