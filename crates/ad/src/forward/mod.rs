//! Forward mode: shadow holds dot values, operations compute with them.
//!
//! A variable's dot value has the variable's own format: 8 bytes binary64 or 4 bytes binary32 at the same place in the shadow. Zero (all bytes zero) is
//! passive. Dot values are computed by vector instructions next to the program's own, with its rounding mode.

mod bits;
mod constants;
mod math;
mod real;
mod requests;
mod rounding;
mod vector;

use derivgrind_engine::tool::Tool;
use derivgrind_engine::translate::{Emitter, Scratch};

use crate::analysis::Step;
use crate::bit_tricks::Lane;
use crate::declared::{self, Declared};
use crate::instrument::{ACTIVE, Instrument, Mode, Request, SUSPENDED, Thread};
use crate::ir::{BitOperation, Effect};
use constants::Constants;
use real::Group;
use vector::{Vector, Width};

/// How a program is run in forward mode.
#[derive(Debug, Default)]
pub struct Settings {
    /// No summary at exit.
    pub quiet: bool,
    /// Seed declared inputs and collect declared outputs. Without it, recording requests do nothing.
    pub declared: Option<Declared>,
}

/// Forward mode.
pub struct DotValues {
    quiet: bool,
}

/// The tool that carries dot values along.
pub type Forward = Instrument<DotValues>;

impl Forward {
    /// There can be one in a process.
    pub fn new(settings: Settings) -> Forward {
        if let Some(declared) = settings.declared {
            declared::install(declared);
        }
        Instrument(DotValues { quiet: settings.quiet })
    }
}

/// Forward mode as a tool of the engine.
pub fn tool(settings: Settings) -> Box<dyn Tool> {
    Box::new(Forward::new(settings))
}

impl Mode for DotValues {
    const SCRATCH: Scratch = Scratch { general: 4, vector: vector::Scratch::COUNT };
    const ARITHMETIC_GENERAL: usize = 0;
    const COPY_BYTES: u16 = 32;
    const REQUESTS: &'static [Request] = requests::REQUESTS;

    type Carried = ();

    fn vectors_needed(steps: &[Step]) -> usize {
        Group::first(steps).map_or(1, |group| group.vectors_needed())
    }

    fn arithmetic(emitter: &mut Emitter<'_>, index: usize, steps: &[Step], (): &mut ()) -> usize {
        if let Some(group) = Group::first(steps) {
            group.emit(emitter, index);
            return group.count;
        }
        if let Effect::Convert { to, target, source } = steps[0].operation.effect {
            Vector::new(emitter, index, to, Width::Scalar).convert(target, source);
        }
        1
    }

    fn trick(thread: &mut Thread<'_>, lane: &Lane, operation: BitOperation) -> u64 {
        bits::dot(thread, lane, operation)
    }

    fn disabled(thread: &mut Thread<'_>, now: bool) {
        thread.context_mut().version = if now { SUSPENDED } else { ACTIVE };
    }

    fn thread_start(&self, thread: &mut Thread<'_>) {
        Constants::of(thread).fill();
    }

    fn fork_child(&self, _context: &mut derivgrind_engine::context::Context) {
        declared::forget();
    }

    fn process_exit(&self) {
        declared::finish();
    }

    fn summarises(&self) -> bool {
        !self.quiet
    }
}
