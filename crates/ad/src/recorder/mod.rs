//! Recording mode: the tool that writes the tape.
//!
//! A block has three versions (`docs/architecture.md`): *passive*, while no shadow register holds an index; *active*; and *plain*, inside
//! intercepted math functions. All are emitted from the same AD IR: the modules `passive` and `active` decide what an effect becomes.
//! The recorder does no floating-point arithmetic of its own.

mod active;
mod bits;
mod helpers;
mod intercept;
mod layout;
mod passive;
mod places;
mod real;
mod replay;
mod requests;
mod state;
mod strings;
mod summary;
mod transfers;

use std::sync::OnceLock;

use derivgrind_engine::context::Context;
use derivgrind_engine::tool::{SignalFrame, Tool, Version};
use derivgrind_engine::translate::{Block, Emitter, Scratch};
use derivgrind_tape::TapeWriter;

use crate::math;

pub use state::Thread;

/// All shadow registers are passive.
pub const PASSIVE: Version = Version(0);
/// Shadow registers are moved along, operations are recorded.
pub const ACTIVE: Version = Version(1);
/// Stores make memory passive, nothing else happens.
pub const PLAIN: Version = Version(2);

/// Scratch registers of the active version.
const ACTIVE_SCRATCH: Scratch = Scratch { general: 4, vector: 4 };

/// How a recording is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// No summary at exit.
    pub quiet: bool,
}

/// The tool that records.
pub struct Recorder {
    settings: Settings,
}

/// The tape of this process. It is not in the [`Recorder`] because helpers, which cached code calls, have no other way to it.
static TAPE: OnceLock<TapeWriter> = OnceLock::new();

pub(crate) fn tape() -> &'static TapeWriter {
    TAPE.get().expect("a recorder has been made before anything is recorded")
}

impl Recorder {
    /// A recorder that writes to `tape`. There can be one in a process.
    pub fn new(tape: TapeWriter, settings: Settings) -> Recorder {
        let _ = TAPE.set(tape);
        Recorder { settings }
    }
}

impl Tool for Recorder {
    fn shadow_layers(&self) -> u32 {
        1
    }

    fn initial_version(&self) -> Version {
        PASSIVE
    }

    fn scratch(&self, version: Version) -> Scratch {
        if version == ACTIVE { ACTIVE_SCRATCH } else { Scratch::default() }
    }

    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>) {
        let ir = crate::lift::lift(block.instructions());
        if version == ACTIVE {
            active::emit(block, &ir, emitter);
        } else {
            passive::emit(block, &ir, version, emitter);
        }
    }

    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        requests::answer(&mut Thread::new(context), arguments, default)
    }

    fn thread_start(&self, context: &mut Context) {
        Thread::new(context).start();
    }

    fn thread_exit(&self, context: &mut Context) {
        Thread::new(context).end();
    }

    fn fork_child(&self, context: &mut Context) {
        state::fork_child(context);
    }

    fn process_exit(&self, _context: &mut Context) {
        state::finish();
        if !self.settings.quiet {
            summary::print();
        }
    }

    fn signal_frame_saved(&self, context: &mut Context, frame: SignalFrame) {
        transfers::save_signal_frame(context, frame);
    }

    fn signal_frame_restored(&self, context: &mut Context, frame: SignalFrame) {
        transfers::restore_signal_frame(context, frame);
    }

    fn wants_function(&self, name: &str) -> bool {
        math::lookup(name).is_some()
    }

    fn hooks_version(&self, version: Version) -> bool {
        // While everything is passive a math function is like any other.
        version == ACTIVE
    }

    fn function_entered(&self, context: &mut Context, name: &str) -> bool {
        intercept::call(context, name)
    }
}
