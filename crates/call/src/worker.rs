//! The worker: loads a library and calls its functions on request. It is an ordinary program; run under `derivgrind record`, each call can be recorded.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use derivgrind_client::sequence::{Number, request};

use crate::guarded::{self, Guarded, Side};
use crate::memory::SharedMemory;
use crate::message::{Answer, Argument, Array, Call, Class, Request};
use crate::native::{Frame, Library, Slot};

/// `START_RECORDING` and `FINISH_RECORDING` answer this if all went well.
const DONE: u64 = 1;
/// Room for what the tool says about a recording.
const NOTES: usize = 8192;

/// Serves requests from the socket that is the standard input, until that is closed.
///
/// # Errors
/// If the connection breaks down. What goes wrong with a request is an answer.
pub fn serve() -> io::Result<()> {
    let mut socket = take_socket()?;
    let Some(Request::Load { library, memory }) = Request::receive(&socket)? else { return Ok(()) };
    let memory = SharedMemory::open(Path::new(&memory))?;
    guarded::watch_faults(&memory);
    let library = match Library::open(Path::new(&library)) {
        Ok(library) => library,
        Err(error) => return Answer::Refused(error).send(&mut socket),
    };
    Answer::Done { bits: 0, notes: String::new() }.send(&mut socket)?;
    let mut worker = Worker { memory, buffers: Vec::new() };
    while let Some(request) = Request::receive(&socket)? {
        let answer = match request {
            Request::Load { .. } => Err("the library is loaded already".to_owned()),
            Request::Find { symbol } => {
                library.function(&symbol).map(|address| Answer::Done { bits: address, notes: String::new() })
            }
            Request::Call(call) => {
                let _watch = Watch::begin(&socket);
                worker.call(&call)
            }
        };
        answer.unwrap_or_else(Answer::Refused).send(&mut socket)?;
    }
    Ok(())
}

/// Moves the socket away from the standard input, so that the library's functions read nothing there.
fn take_socket() -> io::Result<UnixStream> {
    // SAFETY: duplicates a descriptor; the duplicate is new and ours.
    let moved = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 64) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(moved) });
    let nothing = File::open("/dev/null")?;
    // SAFETY: puts another file in the place of the standard input, which nobody owns here.
    if unsafe { libc::dup2(nothing.as_raw_fd(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// While it lives, the end of the session ends this process, even if a function never returns: the kernel sends SIGIO when the other side
/// closes the socket. (No message comes meanwhile: requests and answers take turns.)
struct Watch<'a>(&'a UnixStream);

impl Watch<'_> {
    fn begin(socket: &UnixStream) -> Watch<'_> {
        // SAFETY: sets who is told about the socket, and that somebody is.
        unsafe {
            libc::fcntl(socket.as_raw_fd(), libc::F_SETOWN, libc::getpid());
            libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC);
        }
        Watch(socket)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, 0) };
    }
}

struct Worker {
    memory: SharedMemory,
    /// Room for arrays, by argument. It is kept from call to call.
    buffers: Vec<Option<Guarded>>,
}

impl Worker {
    fn call(&mut self, call: &Call) -> Result<Answer, String> {
        self.memory.follow(call.memory as usize).map_err(|error| format!("cannot map shared memory: {error}"))?;
        guarded::forget_regions();
        if self.buffers.len() < call.arguments.len() {
            self.buffers.resize_with(call.arguments.len(), || None);
        }
        let mut frame = Frame::new(call.function);
        let mut slots = Vec::with_capacity(call.arguments.len());
        for (number, argument) in call.arguments.iter().enumerate() {
            slots.push(self.prepare(&mut frame, number, argument)?);
        }
        if !call.directory.is_empty() {
            start_recording(&call.directory)?;
            for (number, argument) in call.arguments.iter().enumerate() {
                match argument {
                    Argument::Value { class, .. } => {
                        declare_value(IndexFile::Inputs, *class, frame.argument(slots[number]))
                    }
                    Argument::Array(Some(array)) if array.input => self.declare_array(IndexFile::Inputs, number, array),
                    Argument::Array(_) => {}
                }
            }
        }
        // SAFETY: the user's prototype says what the function takes. If it is wrong, what happens happens in this process.
        unsafe { frame.call() };
        let notes = if call.directory.is_empty() { String::new() } else { self.finish_recording(call, &mut frame)? };
        let bits = match call.result {
            Class::Integer => frame.integer_result(),
            Class::Void => 0,
            Class::Float => *frame.real_result() & u64::from(u32::MAX),
            Class::Double => *frame.real_result(),
        };
        // SAFETY: writes out what the function has printed, all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        self.collect(call, bits, notes)
    }

    /// Puts an argument into its place.
    fn prepare(&mut self, frame: &mut Frame, number: usize, argument: &Argument) -> Result<Slot, String> {
        let array = match argument {
            Argument::Value { class: Class::Integer | Class::Void, bits } => return Ok(frame.integer(*bits)),
            Argument::Value { bits, .. } => return Ok(frame.real(*bits)),
            Argument::Array(None) => return Ok(frame.integer(0)),
            Argument::Array(Some(array)) => array,
        };
        let bytes = usize::try_from(array.count.saturating_mul(array.size)).unwrap_or(usize::MAX);
        let buffer = &mut self.buffers[number];
        if !buffer.as_mut().is_some_and(|buffer| buffer.reuse(bytes)) {
            *buffer = None;
            *buffer =
                Some(Guarded::new(bytes).map_err(|error| format!("no memory for an array of {bytes} bytes: {error}"))?);
        }
        let Some(buffer) = buffer else { return Err("no memory for an array".to_owned()) };
        if array.copied_in {
            let source = self.memory.part(array.offset, bytes).ok_or("an array lies outside shared memory")?;
            buffer.array().copy_from_slice(source);
        } else {
            buffer.array().fill(0);
        }
        buffer.arm(number);
        Ok(frame.integer(buffer.address()))
    }

    fn declare_array(&mut self, file: IndexFile, number: usize, array: &Array) {
        if let Some(buffer) = &mut self.buffers[number] {
            request(0, Number::DeclareArray, [file as u64, buffer.address(), array.count, array.size, 0]);
        }
    }

    /// Declares the outputs, the function's result first, and completes the recording. Returns what was not differentiated.
    fn finish_recording(&mut self, call: &Call, frame: &mut Frame) -> Result<String, String> {
        declare_value(IndexFile::Outputs, call.result, frame.real_result());
        for (number, argument) in call.arguments.iter().enumerate() {
            if let Argument::Array(Some(array)) = argument
                && array.output
            {
                self.declare_array(IndexFile::Outputs, number, array);
            }
        }
        let mut notes = vec![0_u8; NOTES];
        let buffer = notes.as_mut_ptr().addr() as u64;
        let done = request(0, Number::FinishRecording, [buffer, NOTES as u64, 0, 0, 0]);
        let end = notes.iter().position(|&byte| byte == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&notes[..end]).into_owned();
        if done == DONE { Ok(text) } else { Err(format!("the recording failed: {text}")) }
    }

    /// Brings arrays back, if nothing was written beside one.
    fn collect(&mut self, call: &Call, bits: u64, notes: String) -> Result<Answer, String> {
        for (number, argument) in call.arguments.iter().enumerate() {
            let (Argument::Array(Some(array)), Some(buffer)) = (argument, &mut self.buffers[number]) else { continue };
            if let Some(side) = buffer.damage() {
                return Ok(Answer::OutOfBounds { argument: number as u64, behind: side == Side::Behind });
            }
            if array.copied_out {
                let content = buffer.array();
                let target =
                    self.memory.part(array.offset, content.len()).ok_or("an array lies outside shared memory")?;
                target.copy_from_slice(content);
            }
        }
        Ok(Answer::Done { bits, notes })
    }
}

/// Which index file.
#[derive(Clone, Copy)]
enum IndexFile {
    Inputs = 0,
    Outputs = 1,
}

fn declare_value(file: IndexFile, class: Class, word: &mut u64) {
    let size = match class {
        Class::Float => 4,
        Class::Double => 8,
        Class::Void | Class::Integer => return,
    };
    request(0, Number::DeclareArray, [file as u64, (&raw mut *word).addr() as u64, 1, size, 0]);
}

fn start_recording(directory: &str) -> Result<(), String> {
    let path = CString::new(directory).map_err(|_| format!("{directory:?} is no directory name"))?;
    let answer = request(0, Number::StartRecording, [path.as_ptr().addr() as u64, 0, 0, 0, 0]);
    match answer {
        DONE => Ok(()),
        0 => Err("the worker does not run under derivgrind".to_owned()),
        _ => Err(format!("cannot record in {directory}: is there memory left in it?")),
    }
}
