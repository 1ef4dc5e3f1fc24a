//! What recording and forward mode have in common: shadow goes where data goes.
//!
//! A block has four versions (`docs/architecture.md`): *passive*, while all shadow registers are zero; *active*; *plain*, inside
//! intercepted functions; *suspended*, while `DG_DISABLE` is in force in forward mode. All are emitted from the same AD IR: the modules `passive` and
//! `active` decide what an effect becomes. What shadow *means*, an index or a dot value, is the business of a `Mode`.

mod active;
mod atomic;
mod bits;
pub(crate) mod groups;
mod helpers;
mod intercepted;
mod layout;
mod loads;
mod losses;
mod masked;
mod parts;
mod passive;
mod places;
mod replaced;
mod replay;
pub(crate) mod requests;
mod strings;
mod stripes;
pub(crate) mod summary;
mod ternary;
mod thread;
mod transfers;
pub(crate) mod undone;
mod x87;

use derivgrind_engine::context::Context;
use derivgrind_engine::tool::{FunctionId, SignalFrame, Tool, Version, WantedFunction};
use derivgrind_engine::translate::{Block, Emitter, Label, Scratch, registers};
use std::any::Any;

use crate::analysis::Step;
use crate::bit_tricks::Lane;
use crate::compression;
use crate::ir::{BitOperation, Place, Span};
use crate::math::intercept;
use crate::shadow;
use crate::x87::ExtendedShadow;

pub(crate) use active::any_active;
pub(crate) use bits::{
    Site, SiteHelper, memory_address, operand_address, payload_for, read_shadow, read_value, site, write_shadow,
};
use intercepted::Intercepted;
pub(crate) use layout::{
    MODE_FIELDS, MODE_FIELDS_END, MOST_LAYERS, NUMBER_MARKED, NUMBERS_CHANGED, WORDS, elements, fetched, file, layers,
    place_in_context,
};
pub(crate) use losses::{lost_at, lost_count, lost_in_call, lost_in_compression, lost_in_pieces, not_lost_at};
pub(crate) use parts::Stored;
pub(crate) use places::{Shadow, constant_address, load, reach_memory, shadow_of, store, value_in_memory};
pub(crate) use replaced::{Replaced, Replacing};
pub(crate) use requests::Request;
pub use summary::{EXIT_LOST, Reporting};
pub use thread::Thread;
pub(crate) use thread::shadow_address;
pub(crate) use x87::{X87Call, X87Move, X87Real};

/// All shadow registers are passive.
pub const PASSIVE: Version = Version(0);
/// Shadow registers are moved along, operations are differentiated.
pub const ACTIVE: Version = Version(1);
/// Stores make memory passive, nothing else happens.
pub const PLAIN: Version = Version(2);
/// Shadow registers are moved along, results of operations are passive.
pub const SUSPENDED: Version = Version(3);

/// Emits code for a cold part.
pub(crate) type Restoring = Box<dyn for<'a> FnOnce(&mut Emitter<'a>)>;

/// The meaning of shadow: what an operation on real numbers does to it.
pub(crate) trait Mode: intercept::Differentiator + ExtendedShadow + Send + Sync + Sized + 'static {
    /// Scratch registers of the active version.
    const SCRATCH: Scratch;
    /// Scratch general registers that [`Mode::arithmetic`] uses, the first ones.
    const ARITHMETIC_GENERAL: usize;
    /// Widest piece in which shadow is copied, in bytes: 8, or more if lanes are not written one by one.
    const COPY_BYTES: u16;
    /// Scratch vector registers beyond what operations need, if there are free ones, in blocks with several operations.
    const SPARE_VECTORS: usize = 0;
    /// Whether dot values or whatever else is in vector registers can be in ZMM16 to ZMM31: see [`Emitter::borrow_avx512`].
    const BORROWS_AVX512: bool = false;
    /// Bytes in the shadow of an x87 register that can be other than zero, in words of eight: 8 or 16.
    const X87_BYTES: u16;
    /// For one or two bytes whose shadow is not zero and becomes so: makes them passive, and so that the number that they are a part of is seen to be none. The payload is the
    /// [`Site`] with their span. In modes without it they just become passive.
    const SPOIL: Option<SiteHelper> = None;
    /// For one or two active bytes that are about to be stored while [pieces](undone) or numbers have been changed: stores their shadow, or that of the number of which they
    /// become a part. The payload is the [`Site`] with the [`parts::Stored`].
    const PUT_BACK: Option<SiteHelper> = None;
    /// For one or two bytes that have been replaced in memory, with anything active about them: gives the memory its shadow. In modes without it their shadow just goes with them.
    const REPLACED: Option<Replacing> = None;
    /// The mode's own client requests.
    const REQUESTS: &'static [Request];

    /// Number of shadow layers.
    fn layers(&self) -> u32 {
        1
    }

    /// What one effect leaves in scratch registers for the next one.
    type Carried: Default;

    /// Scratch vector registers that the operation, conversion or copy at the head of `steps` takes.
    fn vectors_needed(steps: &[Step]) -> usize;

    /// Emits operations and conversions of instruction `index`, at least the first of `steps`, and returns how many.
    fn arithmetic(emitter: &mut Emitter<'_>, index: usize, steps: &[Step], carried: &mut Self::Carried) -> usize;

    /// Emits a copy of up to [`Mode::COPY_BYTES`] bytes in the mode's own way, or returns `false`.
    fn copy(
        _emitter: &mut Emitter<'_>,
        _index: usize,
        _target: Place,
        _source: Place,
        _bytes: u16,
        _carried: &mut Self::Carried,
    ) -> bool {
        false
    }

    /// Shadow is going to be written by others than [`Mode::arithmetic`] and [`Mode::copy`].
    fn overwrite(_emitter: &mut Emitter<'_>, _carried: &mut Self::Carried, _span: Span) {}

    /// Shadow is going to be looked at by others: what of it is only carried is stored.
    fn look_at(_emitter: &mut Emitter<'_>, _carried: &mut Self::Carried, _span: Span) {}

    /// The same for all of the shadow register file.
    fn settle(_emitter: &mut Emitter<'_>, _carried: &mut Self::Carried) {}

    /// What brings carried registers back behind a call of a helper; `None` if they are given up.
    fn restoring(_carried: &Self::Carried) -> Option<Restoring> {
        None
    }

    /// Whether it is certain that eight bytes of the operands of a bit trick are two binary32 numbers.
    fn are_two_numbers(_shadows: &[u64]) -> bool {
        false
    }

    /// The shadow of a bit trick's result, with zeros where derivative information is lost, and these bits. The instruction has been executed.
    fn trick(thread: &mut Thread<'_>, layer: usize, lane: &Lane, operation: BitOperation) -> (u64, u64);

    /// Gives the target of an x87 operation its shadow.
    fn x87(thread: &mut Thread<'_>, call: &X87Call);

    /// Emits code for x87 operations that need no helper and goes on at `join`; else it goes on here. As many general registers are free as
    /// [`Mode::arithmetic`] uses, but at least two.
    fn x87_inline(_emitter: &mut Emitter<'_>, _index: usize, _real: X87Real, _join: Label) {}

    /// Emits a load or store of an x87 register, or returns `false`: then [`Mode::x87_move`] is called if the source is active. Three general
    /// registers are free; the instruction has been executed, but the stack has not moved behind a store.
    fn x87_move_inline(_emitter: &mut Emitter<'_>, _index: usize, _moved: X87Move) -> bool {
        false
    }

    /// Gives the target of a load or store of an x87 register its shadow; `address` is that of the memory operand.
    fn x87_move(thread: &mut Thread<'_>, moved: X87Move, address: u64);

    /// The `DG_DISABLE` counter has been changed.
    fn disabled(thread: &mut Thread<'_>, now: bool);

    /// A thread begins.
    fn thread_start(&self, _thread: &mut Thread<'_>) {}

    /// A thread ends.
    fn thread_exit(&self, _thread: &mut Thread<'_>) {}

    /// See [`Tool::lock_for_fork`].
    fn lock_for_fork(&self) -> Box<dyn Any>;

    /// In the child after `fork`.
    fn fork_child(&self, _context: &mut Context) {}

    /// The process ends.
    fn process_exit(&self) {}

    /// The process goes on after all.
    fn process_goes_on(&self) {}

    /// What is told at exit about losses of activity.
    fn reporting(&self) -> Reporting;
}

/// The tool of a mode.
pub struct Instrument<M>(pub(crate) M);

impl<M: Mode> Tool for Instrument<M> {
    fn shadow_layers(&self) -> u32 {
        self.0.layers()
    }

    fn initial_version(&self) -> Version {
        PASSIVE
    }

    fn scratch(&self, version: Version) -> Scratch {
        let Scratch { general, vector } = match version {
            ACTIVE | SUSPENDED => M::SCRATCH,
            _ => Scratch { general: usize::from(M::REPLACED.is_some()), vector: 0 },
        };
        Scratch { general: general + Emitter::layer_registers(), vector }
    }

    fn borrows_avx512(&self) -> bool {
        M::BORROWS_AVX512
    }

    fn instrument(&self, block: &Block, version: Version, emitter: &mut Emitter<'_>) {
        let vector_bytes = if registers::has_avx512() { shadow::VECTOR_BYTES } else { shadow::NARROW_VECTOR };
        let ir = crate::lift::lift_for(block.instructions(), vector_bytes);
        match version {
            ACTIVE | SUSPENDED => active::emit::<M>(block, &ir, version, emitter),
            _ => passive::emit::<M>(block, &ir, version, emitter),
        }
    }

    fn client_request(&self, context: &mut Context, arguments: [u64; 6], default: u64) -> u64 {
        requests::answer::<M>(&mut Thread::new(context), arguments, default)
    }

    fn thread_start(&self, context: &mut Context) {
        let mut thread = Thread::new(context);
        thread.start();
        self.0.thread_start(&mut thread);
    }

    fn thread_exit(&self, context: &mut Context) {
        self.0.thread_exit(&mut Thread::new(context));
    }

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new((crate::math::lock_for_fork(), losses::lock(), self.0.lock_for_fork()))
    }

    fn fork_child(&self, context: &mut Context) {
        losses::forget();
        stripes::fork_child();
        self.0.fork_child(context);
    }

    fn process_exit(&self, _context: &mut Context) {
        self.0.process_exit();
        self.0.reporting().print();
    }

    fn exit_code(&self, code: i32) -> i32 {
        self.0.reporting().exit_code(code)
    }

    fn data_left(&self, _context: &mut Context, bytes: u64) {
        losses::left(bytes);
    }

    fn process_goes_on(&self, _context: &mut Context) {
        self.0.process_goes_on();
    }

    fn signal_frame_saved(&self, context: &mut Context, frame: SignalFrame) {
        transfers::save_signal_frame::<M>(context, frame);
    }

    fn signal_frame_restored(&self, context: &mut Context, frame: SignalFrame) {
        transfers::restore_signal_frame::<M>(context, frame);
    }

    fn wanted_function(&self, name: &str) -> Option<WantedFunction> {
        let id = Intercepted::named(name)?;
        Some(WantedFunction { id, unmistakable: Intercepted::of(id)?.is_unmistakable(name) })
    }

    fn hooks_version(&self, version: Version, function: FunctionId) -> bool {
        match Intercepted::of(function) {
            // While registers are passive, a math function with arguments in registers is like any other.
            Some(Intercepted::Math(function)) => version == ACTIVE || version == PASSIVE && function.takes_memory(),
            // Its input is in memory.
            Some(Intercepted::Compressor(_)) => version != PLAIN,
            None => false,
        }
    }

    fn function_entered(&self, context: &mut Context, function: FunctionId) -> bool {
        match Intercepted::of(function) {
            Some(Intercepted::Math(function)) => {
                let differentiated = intercept::function_entered(context, function, PLAIN, &self.0);
                if differentiated && context.version == PASSIVE {
                    // The result can be in a register.
                    context.version = ACTIVE;
                }
                differentiated
            }
            Some(Intercepted::Compressor(function)) => compression::function_entered(context, function, PLAIN, &self.0),
            None => false,
        }
    }
}
