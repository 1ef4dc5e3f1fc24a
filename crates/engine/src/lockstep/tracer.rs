//! The comparing process: drives the native process by what the engine has done, and compares.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CStr;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::event::{Event, Run};
use super::native::{Native, Stop};
use super::registers::Registers;
use super::report::{Finding, Objects};
use super::{Answer, close_all_except, descriptor};
use crate::memory;

/// Longest instruction, in bytes.
const LONGEST: usize = 15;
/// The standard error stream: what is left of the program's descriptors.
const STANDARD_ERROR: i32 = 2;

/// Starts the comparing process, which starts the native one.
///
/// # Errors
/// If the process cannot be made. What fails in it is reported by it.
pub(super) fn start(stream: UnixStream, quiet: bool) -> io::Result<()> {
    // SAFETY: only this thread of ours exists that holds locks of the engine; libc keeps its allocator usable in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: forks again and ends the process in between, so that the comparing process is nobody's child here.
            match unsafe { libc::fork() } {
                0 => main(stream, quiet),
                _ => end(),
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is ours.
            while unsafe { libc::waitpid(child, &mut status, 0) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            Ok(())
        }
    }
}

fn end() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn main(mut stream: UnixStream, quiet: bool) -> ! {
    // Keys pressed in the terminal are for the program.
    // SAFETY: has no preconditions.
    unsafe { libc::setsid() };
    close_all_except(&[STANDARD_ERROR, descriptor(&stream)]);
    let answer = match Tracer::new() {
        Err(error) => {
            crate::report(&format!("lock-step: cannot start the native process: {error}"));
            Answer::Lost
        }
        Ok(tracer) => follow(tracer, &mut stream, quiet).unwrap_or_else(|error| {
            let message = format!("cannot follow the native process: {error}; the program goes on without it");
            crate::report(&format!("lock-step: {message}"));
            Answer::Lost
        }),
    };
    let _ = stream.write_all(&[answer.to_byte()]);
    end()
}

/// Follows the engine to the end, or to a difference.
fn follow(mut tracer: Tracer, stream: &mut UnixStream, quiet: bool) -> io::Result<Answer> {
    let mut events = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    while let Some(event) = Event::read(&mut events)? {
        match event {
            Event::Wait => stream.write_all(&[Answer::Equal.to_byte()])?,
            Event::End { reason } => {
                if !(quiet && reason.is_empty()) {
                    crate::report(&summary(tracer.blocks, &reason));
                }
                return Ok(Answer::Equal);
            }
            Event::Run(run, registers) => {
                if let Some(finding) = tracer.compare(run, &registers)? {
                    crate::report(&finding.text(&tracer.native, &tracer.objects));
                    return Ok(Answer::Different);
                }
            }
            other => tracer.repeat(other)?,
        }
    }
    // The engine has ended without a word: it has said itself what was wrong.
    crate::report(&summary(tracer.blocks, "the process has ended"));
    Ok(Answer::Lost)
}

fn summary(blocks: u64, reason: &str) -> String {
    if reason.is_empty() {
        return format!("lock-step: {blocks} blocks, no difference");
    }
    format!("lock-step: {blocks} blocks, no difference; not compared any further: {reason}")
}

/// Device and inode of a file.
type File = (u64, u64);

/// An open file in the native process.
struct SharedObject {
    descriptor: u64,
    length: u64,
}

/// Shared memory is always writable natively: the kernel does not let a tracer write to it otherwise, not even a breakpoint.
const WRITABLE: u64 = libc::PROT_WRITE as u64;

struct Tracer {
    native: Native,
    objects: Objects,
    /// Objects in the native process that stand for files that are mapped shared.
    shared: HashMap<File, SharedObject>,
    /// Blocks that have been compared.
    blocks: u64,
    /// Registers after the last of them.
    last: Registers,
}

impl Tracer {
    fn new() -> io::Result<Tracer> {
        let native = Native::start()?;
        // The engine does not execute code where it was loaded.
        for mapping in memory::mappings().into_iter().filter(|mapping| mapping.protection.execute) {
            let writable = if mapping.protection.write { libc::PROT_WRITE } else { 0 };
            let protection = libc::PROT_READ | libc::PROT_EXEC | writable;
            let length = mapping.end - mapping.start;
            native.call(libc::SYS_mprotect, [mapping.start, length, protection as u64, 0, 0, 0])?;
        }
        let last = native.registers()?;
        Ok(Tracer { native, objects: Objects::loaded(), shared: HashMap::new(), blocks: 0, last })
    }

    /// Repeats what is not the execution of instructions.
    fn repeat(&mut self, event: Event) -> io::Result<()> {
        let native = &self.native;
        match event {
            Event::Adopt(registers) => {
                native.set_registers(&registers)?;
                self.last = registers;
            }
            Event::Map { start, length, protection, origin } => {
                let shared = origin.as_ref().and_then(|origin| Some((origin.shared?, origin.offset)));
                match shared {
                    Some((object, offset)) => self.map_shared(start, length, protection, object, offset)?,
                    None => {
                        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
                        native.call(libc::SYS_mmap, [start, length, protection, flags as u64, u64::MAX, 0])?;
                    }
                }
                self.objects.mapped(start, length, origin);
            }
            Event::Unmap { start, length } => {
                native.call(libc::SYS_munmap, [start, length, 0, 0, 0, 0])?;
                self.objects.mapped(start, length, None);
            }
            Event::Protect { start, length, mut protection } => {
                if self.objects.is_shared(start) {
                    protection |= WRITABLE;
                }
                native.call(libc::SYS_mprotect, [start, length, protection, 0, 0, 0])?;
            }
            Event::Remap { start, old_length, new_length, flags, target } => {
                // Where the engine has moved it to is a fixed address here.
                let kept = flags & !(libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE) as u64;
                let fixed = (libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE) as u64;
                let flags = if target == start { kept } else { kept | fixed };
                native.call(libc::SYS_mremap, [start, old_length, new_length, flags, target, 0])?;
            }
            Event::Advise { start, length, advice } => {
                // Parts that are not mapped fail here as they did there.
                let _ = native.call(libc::SYS_madvise, [start, length, advice, 0, 0, 0]);
            }
            Event::Write { address, bytes } => native.write(address, &bytes)?,
            Event::Run(..) | Event::Wait | Event::End { .. } => {}
        }
        Ok(())
    }

    /// Maps a part of the object that natively stands for a shared file.
    fn map_shared(&mut self, start: u64, length: u64, protection: u64, file: File, offset: u64) -> io::Result<()> {
        /// The name that the kernel shows for the objects; the native process has it at the same address.
        static NAME: &CStr = c"lock-step";
        let native = &self.native;
        let object = match self.shared.entry(file) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let descriptor = native.call(libc::SYS_memfd_create, [NAME.as_ptr() as u64, 0, 0, 0, 0, 0])?;
                new.insert(SharedObject { descriptor, length: 0 })
            }
        };
        let end = offset.saturating_add(length);
        if end > object.length {
            native.call(libc::SYS_ftruncate, [object.descriptor, end, 0, 0, 0, 0])?;
            object.length = end;
        }
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
        native.call(libc::SYS_mmap, [start, length, protection | WRITABLE, flags, object.descriptor, offset])?;
        Ok(())
    }

    /// Executes natively what the engine has executed, and compares.
    fn compare(&mut self, run: Run, engine: &Registers) -> io::Result<Option<Finding>> {
        self.blocks += 1;
        let from = self.last.rip;
        let instructions = self.decode(from, run.count as usize);
        let mut stop = self.execute(&instructions, from)?;
        if run.fault && stop == Stop::There {
            stop = self.repeat_string(&run, engine)?;
        }
        let native = self.native.registers()?;
        let differences = native.differences(engine, run.flags, run.loaded);
        if stop == Stop::There && differences.is_empty() {
            self.last = native;
            return Ok(None);
        }
        let signal = if let Stop::Signal(signal) = stop { Some(signal) } else { None };
        let before = self.last.clone();
        Ok(Some(Finding { number: self.blocks, run, from, before, differences, signal }))
    }

    /// The next `count` instructions as the native process has them in memory.
    fn decode(&self, address: u64, count: usize) -> Vec<Instruction> {
        let mut bytes = vec![0; count * LONGEST];
        let length = self.native.read(address, &mut bytes);
        let decoder = Decoder::with_ip(64, &bytes[..length], address, DecoderOptions::NONE);
        decoder.into_iter().take(count).collect()
    }

    /// Executes instructions that follow each other. Only the last one may transfer control.
    fn execute(&self, instructions: &[Instruction], from: u64) -> io::Result<Stop> {
        let Some(last) = instructions.last() else { return Ok(Stop::There) };
        let inside = from..=last.ip();
        let targets = targets(last);
        if !targets.is_empty() && targets.iter().all(|target| !inside.contains(target)) {
            // A target without memory is no place for a breakpoint.
            if let Some(stop) = self.native.run_to(&targets)? {
                return Ok(stop);
            }
        }
        if from != last.ip() {
            match self.native.run_to(&[last.ip()])? {
                Some(Stop::There) => {}
                Some(stop) => return Ok(stop),
                // Nothing can be there either: the steps will show what happens.
                None => {
                    while self.native.position()?.0 != last.ip() {
                        if let stop @ Stop::Signal(_) = self.native.step()? {
                            return Ok(stop);
                        }
                    }
                }
            }
        }
        loop {
            let stop = self.native.step()?;
            // A repeated string instruction stops after each iteration.
            if stop != Stop::There || !is_repeated(last) || self.native.position()?.0 != last.ip() {
                return Ok(stop);
            }
        }
    }

    /// A fault in the middle of a repeated string instruction: as many iterations as the engine has done.
    fn repeat_string(&self, run: &Run, engine: &Registers) -> io::Result<Stop> {
        const RCX: usize = 1;
        let repeated = self.decode(run.stop, 1).first().is_some_and(is_repeated);
        let mut stop = Stop::There;
        while repeated && stop == Stop::There {
            let (rip, rcx) = self.native.position()?;
            if rip != run.stop || rcx == engine.general[RCX] {
                break;
            }
            stop = self.native.step()?;
        }
        Ok(stop)
    }
}

/// Where an instruction can lead to, unless that is known only when it is executed.
fn targets(instruction: &Instruction) -> Vec<u64> {
    match instruction.flow_control() {
        FlowControl::Next => vec![instruction.next_ip()],
        FlowControl::UnconditionalBranch | FlowControl::Call if instruction.near_branch_target() != 0 => {
            vec![instruction.near_branch_target()]
        }
        FlowControl::ConditionalBranch => vec![instruction.near_branch_target(), instruction.next_ip()],
        _ => Vec::new(),
    }
}

fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}
