//! Progress on the terminal, for work that takes long.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less time than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Times a second that the display changes.
const REFRESH_RATE: u8 = 5;

/// A line on the standard error stream that comes up if the stream is a terminal and the work turns out to be long.
pub struct Progress {
    bar: ProgressBar,
    begin: Instant,
    wanted: bool,
}

impl Progress {
    /// Progress as a share of something whose size is known.
    pub fn share(what: &'static str, quiet: bool) -> Progress {
        let template = format!("derivgrind: {what} {{percent:>3}} % {{wide_bar}} {{eta}} left");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress {
            bar: ProgressBar::hidden().with_style(style),
            begin: Instant::now(),
            wanted: !quiet && std::io::stderr().is_terminal(),
        }
    }

    /// Sets how much is done, and of how much.
    pub fn set(&mut self, done: u64, total: Option<u64>) {
        if self.wanted && self.bar.is_hidden() && self.begin.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REFRESH_RATE));
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
