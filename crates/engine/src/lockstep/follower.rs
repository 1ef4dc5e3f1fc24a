//! The engine's side: tells the comparing process what each block has done.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::event::{Event, Run};
use super::layout::Call;
use super::registers::{Loaded, Registers, flag_bits};
use super::{Answer, unpredictable};
use crate::context::Context;
use crate::memory::{PAGE, user};
use crate::tool::Version;
use crate::translate::{Block, Exit, ExitKind, flags_overwritten};

/// The direction flag, which is always defined.
const DIRECTION: u64 = 1 << 10;
/// Most bytes of memory in one message.
const PIECE: u64 = 64 << 10;

/// A block that is being executed.
pub(crate) struct Execution {
    block: Block,
    version: Version,
    /// It consists of one instruction, whose result is taken over.
    taken_over: bool,
    /// Memory that this instruction writes.
    stored: Option<Range<u64>>,
    /// The system call that ends it.
    call: Option<Call>,
}

/// The connection to the comparing process.
pub(super) struct Follower {
    stream: UnixStream,
    /// Where the native process will stand when it has done all that was sent.
    position: u64,
    /// Flags that have no defined value there, as iced has them. Instrumentation may have changed what is left in them.
    undefined: u32,
}

impl Follower {
    pub(super) fn new(stream: UnixStream) -> Follower {
        Follower { stream, position: 0, undefined: 0 }
    }

    fn send(&mut self, event: &Event) -> io::Result<()> {
        let bytes = event.encode();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // SAFETY: a valid buffer. Not `write`: a process at the other end that has gone must not raise SIGPIPE.
            let sent =
                unsafe { libc::send(self.stream.as_raw_fd(), rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) => rest = &rest[sent..],
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// What the comparing process has to say; for [`Answer::Equal`] that follows an [`Event::Wait`] or [`Event::End`].
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte)?;
        Answer::from_byte(byte[0]).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// Waits until all that was sent has been compared.
    pub(super) fn wait(&mut self) -> io::Result<Answer> {
        self.send(&Event::Wait)?;
        self.answer()
    }

    /// Ends the comparison, for a reason if the program goes on.
    pub(super) fn end(&mut self, reason: &str) -> io::Result<Answer> {
        self.send(&Event::End { reason: reason.to_owned() })?;
        self.answer()
    }

    /// The native process takes over the application's registers.
    pub(super) fn adopt(&mut self, context: &Context) -> io::Result<()> {
        self.adopt_at(context, context.rip)
    }

    /// The same for an application that goes on at `rip`.
    fn adopt_at(&mut self, context: &Context, rip: u64) -> io::Result<()> {
        self.position = rip;
        self.undefined = 0;
        self.send(&Event::Adopt(Registers::of(context, rip)))
    }

    /// The native process takes over memory, page by page, as far as it can be read.
    pub(super) fn copy(&mut self, range: Range<u64>, skip_zero_pages: bool) -> io::Result<()> {
        let mut piece = Vec::new();
        let mut start = range.start;
        let mut at = range.start;
        let mut page = [0; PAGE as usize];
        while at < range.end {
            let bytes = &mut page[..(PAGE - at % PAGE).min(range.end - at) as usize];
            let wanted =
                user::read_bytes(at, bytes).is_ok() && !(skip_zero_pages && bytes.iter().all(|&byte| byte == 0));
            if wanted {
                piece.extend_from_slice(bytes);
            }
            at += bytes.len() as u64;
            if !wanted && !skip_zero_pages {
                // What the kernel has written is contiguous: more was announced than there is.
                at = range.end;
            }
            if !wanted || piece.len() as u64 >= PIECE || at >= range.end {
                if !piece.is_empty() {
                    self.send(&Event::Write { address: start, bytes: std::mem::take(&mut piece) })?;
                }
                start = at;
            }
        }
        Ok(())
    }

    /// A block is about to be executed from `context.rip` on.
    pub(super) fn enter(&mut self, context: &Context) -> io::Result<Execution> {
        if self.position != context.rip {
            self.adopt(context)?;
        }
        let version = context.version;
        let block = Block::decode(context.rip, crate::tool().scratch(version));
        let alone = block.instructions().first().filter(|first| unpredictable::is_unpredictable(first));
        let stored = alone.and_then(|instruction| unpredictable::written(instruction, context));
        let taken_over = alone.is_some();
        Ok(Execution { block, version, taken_over, stored, call: None })
    }

    /// The block has been left; what `exit` asks for has not been done yet. `None`: a fault has ended it at `context.rip`.
    pub(super) fn left(&mut self, execution: &mut Execution, context: &Context, exit: Option<&Exit>) -> io::Result<()> {
        let block = &execution.block;
        let Some(exit) = exit else { return self.run_before(execution, context, context.rip, true) };
        match exit.kind {
            // Another version takes over in the middle of the block.
            ExitKind::Branch { target, .. } if exit.version != execution.version => {
                self.run_before(execution, context, target, false)
            }
            ExitKind::Branch { .. } | ExitKind::Indirect if execution.taken_over => Ok(()),
            ExitKind::Branch { target, .. } => self.run_all(execution, context, target),
            ExitKind::Indirect => self.run_all(execution, context, context.branch_target),
            ExitKind::Syscall { .. } => {
                let address = ends_at(block);
                self.run_before(execution, context, address, false)?;
                execution.call = Some(Call::about_to_be_made(context));
                Ok(())
            }
            ExitKind::Emulated { .. } | ExitKind::ClientRequest { .. } => {
                self.run_before(execution, context, ends_at(block), false)
            }
            ExitKind::Fault { address, .. } => self.run_before(execution, context, address, false),
            // The instruction may have been executed or not; the next exit tells.
            ExitKind::Helper { .. } => Ok(()),
        }
    }

    /// What the exit asks for has been done, and the application stands at `context.rip`. `written` is the memory that the
    /// engine or the kernel has written meanwhile.
    pub(super) fn acted(
        &mut self,
        execution: Execution,
        context: &Context,
        exit: Option<&Exit>,
        written: Vec<Range<u64>>,
    ) -> io::Result<()> {
        let Some(exit) = exit else { return Ok(()) };
        match exit.kind {
            ExitKind::Branch { .. } | ExitKind::Indirect if self.position == context.rip => Ok(()),
            ExitKind::Branch { .. } | ExitKind::Indirect => {
                execution.stored.map_or(Ok(()), |range| self.copy(range, false))?;
                self.adopt(context)
            }
            // Blocks that the helper has run have moved the native process along.
            ExitKind::Helper { .. } if self.position == context.rip => Ok(()),
            ExitKind::Helper { .. } => self.run_before(&execution, context, context.rip, false),
            ExitKind::Syscall { .. }
            | ExitKind::Emulated { .. }
            | ExitKind::ClientRequest { .. }
            | ExitKind::Fault { .. } => {
                let value = context.reg(crate::context::Gpr::Rax);
                self.done_for_the_application(execution.call, value, written)?;
                self.adopt(context)
            }
        }
    }

    fn done_for_the_application(
        &mut self,
        mut call: Option<Call>,
        value: u64,
        written: Vec<Range<u64>>,
    ) -> io::Result<()> {
        if let Some(call) = call.take_if(|call| call.is_about_memory()) {
            let effect = call.effect(value);
            if let Some(event) = effect.event {
                self.send(&event)?;
            }
            return effect.filled.into_iter().try_for_each(|range| self.copy(range, true));
        }
        let time = call.as_ref().and_then(Call::remaining_time);
        written.into_iter().chain(time).try_for_each(|range| self.copy(range, false))
    }

    /// The block was executed from where the native process stands to its end, and has led to `stop`.
    fn run_all(&mut self, execution: &Execution, context: &Context, stop: u64) -> io::Result<()> {
        self.run(execution, context, execution.block.instructions().len(), stop, false)
    }

    /// The same up to the instruction at `stop`, which has not been executed.
    fn run_before(&mut self, execution: &Execution, context: &Context, stop: u64, fault: bool) -> io::Result<()> {
        match index_of(&execution.block, stop) {
            Some(index) => self.run(execution, context, index, stop, fault),
            // A helper has let the application go on elsewhere: there is nothing to compare with.
            None => self.adopt_at(context, stop),
        }
    }

    fn run(&mut self, execution: &Execution, context: &Context, end: usize, stop: u64, fault: bool) -> io::Result<()> {
        let block = &execution.block;
        let begin = index_of(block, self.position).unwrap_or(0);
        for instruction in block.instructions().get(begin..end).unwrap_or_default() {
            self.undefined = self.undefined & !flags_overwritten(instruction) | instruction.rflags_undefined();
        }
        let flags = flag_bits(block.flags_live_before(end) & !self.undefined) | DIRECTION;
        let count = end.saturating_sub(begin) as u64;
        self.position = stop;
        let loaded = block.instructions().get(end).and_then(Loaded::by);
        let run = Run { block: block.address, count, stop, flags, fault, loaded };
        self.send(&Event::Run(run, Registers::of(context, stop)))
    }
}

/// Address of the instruction that ends a block and is not executed in the cache.
fn ends_at(block: &Block) -> u64 {
    block.terminator().map_or(block.address, iced_x86::Instruction::ip)
}

fn index_of(block: &Block, address: u64) -> Option<usize> {
    let position = block.instructions().iter().position(|instruction| instruction.ip() == address);
    position.or((address == block.address).then_some(0))
}
