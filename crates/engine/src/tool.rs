//! The boundary between the engine and what it is used for.

use std::any::Any;

use crate::context::Context;
use crate::translate::{Block, Emitter, Scratch};

/// Which translation of a block is meant. The engine keeps versions apart and gives them no meaning;
/// each tool numbers its own, below [`VERSIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Version(pub u8);

/// How many versions of a block a tool can tell apart.
pub const VERSIONS: usize = 4;

/// A tool's own number for a function whose entries it wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionId(pub usize);

/// A function whose entries a tool wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFunction {
    /// What the tool calls it.
    pub id: FunctionId,
    /// Nobody else's function has this name: one in an executable or another library is a copy. See [`crate::hooks`].
    pub unmistakable: bool,
}

/// An instrumentation tool: decides what is put around the instructions of each block.
///
/// All methods may be called from several application threads at once.
pub trait Tool: Send + Sync {
    /// Number of shadow layers to be mapped beside application memory; 0 if the tool has no shadow.
    fn shadow_layers(&self) -> u32;

    /// The version in which a new thread starts.
    fn initial_version(&self) -> Version;

    /// How many scratch registers [`Tool::instrument`] will reserve in this version. Blocks are cut so that they leave as many.
    fn scratch(&self, _version: Version) -> Scratch {
        Scratch::default()
    }

    /// Whether the tool wants ZMM16 to ZMM31, which only EVEX instructions reach, and the mask registers as scratch registers in some blocks: see
    /// [`Emitter::borrow_avx512`].
    fn borrows_avx512(&self) -> bool {
        false
    }

    /// Emits `block` in the given version: a [`Emitter::copy`] for each of its instructions in order, with
    /// instrumentation between. The block's control flow is emitted by the engine afterwards.
    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>);

    /// Answers a client request (the Valgrind sequence). `arguments` are the six words at RAX, `default` the value in RDX;
    /// the result goes to RDX.
    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64;

    /// A thread is about to execute its first application instruction, on the thread itself.
    fn thread_start(&self, _context: &mut Context) {}

    /// A thread will execute no further application instruction; called on the thread itself.
    fn thread_exit(&self, _context: &mut Context) {}

    /// Locks what the child of a `fork` must find free, since threads that hold a lock at that moment do not exist there. The result is dropped in
    /// parent and child when the child has been made. Under these locks nobody may call the code cache.
    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new(())
    }

    /// Called in the child after `fork`, before application code continues; no other thread exists there.
    fn fork_child(&self, _context: &mut Context) {}

    /// The process is about to end (`exit_group`, a fatal signal, `execve`). Called once, and once more after
    /// [`Tool::process_goes_on`], with the other threads possibly still running.
    fn process_exit(&self, _context: &mut Context) {}

    /// The code with which the process ends whose program ends with `code`. Called after [`Tool::process_exit`].
    fn exit_code(&self, code: i32) -> i32 {
        code
    }

    /// A system call has taken data out of the program, to a file or another process; `bytes` of it have non-zero shadow.
    fn data_left(&self, _context: &mut Context, _bytes: u64) {}

    /// What [`Tool::process_exit`] has announced does not come about: an `execve` has failed, and the process goes on.
    fn process_goes_on(&self, _context: &mut Context) {}

    /// The engine has built a signal frame whose general registers lie at `gregs` (in the order of [`crate::context::Gpr`], 8 bytes each)
    /// and whose vector registers lie in an XSAVE image at `xsave`, and is about to enter the handler: put shadow registers
    /// into the shadow of these and make the handler's own shadow registers passive.
    fn signal_frame_saved(&self, _context: &mut Context, _frame: SignalFrame) {}

    /// The reverse of [`Tool::signal_frame_saved`], at `rt_sigreturn`.
    fn signal_frame_restored(&self, _context: &mut Context, _frame: SignalFrame) {}

    /// A function that [`Tool::wanted_function`] asked for is about to be entered in a version that
    /// [`Tool::hooks_version`] names for it. `context.rip` is its first instruction. Returns `true` if it has run the function to its return (the context then
    /// stands behind the call), `false` to continue normally.
    fn function_entered(&self, _context: &mut Context, _function: FunctionId) -> bool {
        false
    }

    /// What the tool wants of the exported functions of this name, if their entries shall be reported.
    fn wanted_function(&self, _name: &str) -> Option<WantedFunction> {
        None
    }

    /// Whether entries of this function are reported in this version.
    fn hooks_version(&self, _version: Version, _function: FunctionId) -> bool {
        false
    }
}

/// Where a signal frame has the registers, as application addresses.
#[derive(Clone, Copy, Debug)]
pub struct SignalFrame {
    /// `uc_mcontext.gregs`: address of the 8-byte slot of each general register, indexed by hardware number.
    pub general: [u64; 16],
    /// The XSAVE image (legacy area first).
    pub xsave: u64,
}
