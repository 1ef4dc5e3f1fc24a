//! A session: a library in a process of its own, which is kept from call to call.
//!
//! The process either runs natively, or under `derivgrind record`: then each call can be recorded, and engine, library and code cache stay
//! warm. If it dies, the next call starts a new one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use derivgrind_tape::Tape;
use tempfile::TempDir;

use crate::error::{CallError, signal};
use crate::memory::{PAGE, SharedMemory, Word};
use crate::message::{Answer, Argument, Array, Call, Class, Request};
use crate::prototype::Scalar;
use crate::tools::Tools;

/// Alignment of arrays in shared memory.
const ALIGNMENT: usize = 64;
/// How often a waiting session asks whether it shall go on.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a worker may take to end when its session does.
const GRACE: Duration = Duration::from_millis(500);

/// An argument of a call.
#[derive(Debug)]
pub enum Value<'a> {
    /// A whole number, as bits.
    Integer(u64),
    /// A binary32 number.
    Float(f32),
    /// A binary64 number.
    Double(f64),
    /// The address of an array.
    Array(ArrayValue<'a>),
    /// A null pointer.
    Null,
}

/// An array.
#[derive(Debug)]
pub struct ArrayValue<'a> {
    /// Bytes of an element.
    pub size: usize,
    /// Number of elements.
    pub count: usize,
    /// The content before the call; `None` for zeros.
    pub source: Option<&'a [u8]>,
    /// Where the content after the call goes.
    pub target: Option<&'a mut [u8]>,
    /// Whether the elements are inputs of the recording.
    pub input: bool,
    /// Whether the elements are outputs of the recording.
    pub output: bool,
    /// The argument's name, for messages.
    pub name: &'a str,
}

/// What a call has left.
#[derive(Debug)]
pub struct Outcome {
    /// The bits of the function's result; 0 if there is none.
    pub bits: u64,
    /// The recording, if one was asked for: the inputs are the real scalars and the arrays marked so, the outputs the real result and the arrays
    /// marked so, in the order of the parameters.
    pub tape: Option<Tape>,
    /// What was not differentiated; empty if all was.
    pub notes: String,
}

/// For how long to wait.
pub struct Patience<'a> {
    /// Longest duration of the call.
    pub timeout: Option<Duration>,
    /// Is asked from time to time whether to give up.
    pub give_up: &'a mut dyn FnMut() -> bool,
}

impl Patience<'_> {
    fn wait(&mut self, socket: &UnixStream, symbol: &str) -> Result<(), CallError> {
        let started = Instant::now();
        loop {
            let left = self.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let slice = left.unwrap_or(PATIENCE).min(PATIENCE).as_micros().div_ceil(1000) as libc::c_int;
            let mut descriptor = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid descriptor entry.
            match unsafe { libc::poll(&raw mut descriptor, 1, slice) } {
                0 => {}
                ready if ready > 0 => return Ok(()),
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(io::Error::last_os_error().into()),
            }
            if (self.give_up)() {
                return Err(CallError::Interrupted);
            }
            if let Some(limit) = self.timeout
                && started.elapsed() >= limit
            {
                return Err(CallError::Timeout { symbol: symbol.to_owned(), limit });
            }
        }
    }
}

/// How a session's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As any other program.
    Native,
    /// Under the tool.
    Recording,
}

/// A library in a process of its own.
#[derive(Debug)]
pub struct Session {
    tools: Tools,
    library: PathBuf,
    mode: Mode,
    worker: Option<Worker>,
}

impl Session {
    /// A session for a library. Its process is started by [`Session::start`], or by the first call.
    pub fn new(tools: Tools, library: &Path, mode: Mode) -> Session {
        Session { tools, library: library.to_owned(), mode, worker: None }
    }

    /// Starts the process, without waiting for it: the library is loaded meanwhile.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(&mut self) -> Result<(), CallError> {
        self.worker().map(drop)
    }

    /// Waits until the library is loaded, and looks for a function.
    ///
    /// # Errors
    /// If the library cannot be loaded or does not have it.
    pub fn find(&mut self, symbol: &str, patience: &mut Patience<'_>) -> Result<(), CallError> {
        self.with_worker(|worker| worker.find(symbol, patience).map(drop))
    }

    /// Calls a function. `result` is what it returns; with `record`, which needs [`Mode::Recording`], the call is recorded.
    ///
    /// # Errors
    /// Whatever goes wrong; the process is ended then, unless only the request was at fault.
    pub fn call(
        &mut self,
        symbol: &str,
        result: Option<Scalar>,
        arguments: &mut [Value<'_>],
        record: bool,
        patience: &mut Patience<'_>,
    ) -> Result<Outcome, CallError> {
        self.with_worker(|worker| worker.call(symbol, result, arguments, record, patience))
    }

    /// Ends the process.
    pub fn close(&mut self) {
        self.worker = None;
    }

    /// Does something with the process, which is given up if that goes wrong.
    fn with_worker<T>(&mut self, act: impl FnOnce(&mut Worker) -> Result<T, CallError>) -> Result<T, CallError> {
        let worker = self.worker()?;
        let result = act(worker);
        if !matches!(result, Ok(_) | Err(CallError::Refused(_) | CallError::OutOfBounds(_) | CallError::Tape(_)))
            && !worker.alive()
        {
            self.worker = None;
        }
        if matches!(result, Err(CallError::OutOfBounds(_))) {
            // Who knows what else was written.
            self.worker = None;
        }
        result
    }

    fn worker(&mut self) -> Result<&mut Worker, CallError> {
        // A process that `fork` has made must not use its parent's worker.
        if self.worker.as_ref().is_some_and(|worker| worker.owner != std::process::id()) {
            self.worker = None;
        }
        match &mut self.worker {
            Some(worker) => Ok(worker),
            empty => Ok(empty.insert(Worker::start(&self.tools, &self.library, self.mode)?)),
        }
    }
}

#[derive(Debug)]
struct Worker {
    /// The process that has started it.
    owner: u32,
    child: Child,
    socket: UnixStream,
    directory: Option<TempDir>,
    memory: SharedMemory,
    loaded: bool,
    functions: HashMap<String, u64>,
    recordings: u64,
    finished: bool,
}

impl Worker {
    fn start(tools: &Tools, library: &Path, mode: Mode) -> Result<Worker, CallError> {
        let cannot = |error: io::Error| CallError::Start(error.to_string());
        let directory = session_directory().map_err(cannot)?;
        let memory = directory.path().join("memory");
        let shared = SharedMemory::create(&memory).map_err(cannot)?;
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        let mut command = match mode {
            Mode::Native => Command::new(&tools.worker),
            Mode::Recording => {
                let mut command = Command::new(&tools.derivgrind);
                command.args(["--quiet", "record"]).arg(directory.path().join("main")).arg("--").arg(&tools.worker);
                command
            }
        };
        // A process group of its own, so that Ctrl-C is for the user's program alone.
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0).spawn();
        let child = child.map_err(|error| CallError::Start(format!("{}: {error}", command.get_program().display())))?;
        let mut worker = Worker {
            owner: std::process::id(),
            child,
            socket: ours,
            directory: Some(directory),
            memory: shared,
            loaded: false,
            functions: HashMap::new(),
            recordings: 0,
            finished: false,
        };
        let text = |path: &Path| {
            path.to_str()
                .map(str::to_owned)
                .ok_or_else(|| CallError::Load(format!("{} is no UTF-8 text", path.display())))
        };
        let request = Request::Load { library: text(library)?, memory: text(&memory)? };
        // A worker that has died already is noticed when its answer is waited for.
        let _ = request.send(&mut worker.socket);
        Ok(worker)
    }

    fn alive(&mut self) -> bool {
        !self.finished && matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the answer to the request just sent.
    fn answer(&mut self, symbol: &str, patience: &mut Patience<'_>) -> Result<Answer, CallError> {
        if let Err(error) = patience.wait(&self.socket, symbol) {
            self.end();
            return Err(error);
        }
        match Answer::receive(&self.socket)? {
            Some(answer) => Ok(answer),
            None => {
                self.finished = true;
                let status = self.child.wait()?;
                Err(CallError::Died(self.describe_end(symbol, status)))
            }
        }
    }

    fn load(&mut self, patience: &mut Patience<'_>) -> Result<(), CallError> {
        if !self.loaded {
            match self.answer("loading the library", patience)? {
                Answer::Refused(why) => return Err(CallError::Load(why)),
                _ => self.loaded = true,
            }
        }
        Ok(())
    }

    fn find(&mut self, symbol: &str, patience: &mut Patience<'_>) -> Result<u64, CallError> {
        self.load(patience)?;
        if let Some(&address) = self.functions.get(symbol) {
            return Ok(address);
        }
        Request::Find { symbol: symbol.to_owned() }.send(&mut self.socket)?;
        match self.answer(symbol, patience)? {
            Answer::Done { bits, .. } => {
                self.functions.insert(symbol.to_owned(), bits);
                Ok(bits)
            }
            Answer::Refused(why) => Err(CallError::Load(why)),
            Answer::OutOfBounds { .. } => Err(CallError::Refused("an unexpected answer".to_owned())),
        }
    }

    fn call(
        &mut self,
        symbol: &str,
        result: Option<Scalar>,
        arguments: &mut [Value<'_>],
        record: bool,
        patience: &mut Patience<'_>,
    ) -> Result<Outcome, CallError> {
        let function = self.find(symbol, &mut Patience { timeout: None, give_up: &mut *patience.give_up })?;
        let sent = self.place(arguments)?;
        let place = record.then(|| self.new_recording()).transpose()?;
        let directory = place.as_ref().map(|place| place.display().to_string()).unwrap_or_default();
        let result = class_of(result);
        let call = Call { function, memory: self.memory.len() as u64, result, directory, arguments: sent };
        self.memory.clear_words();
        Request::Call(call.clone()).send(&mut self.socket)?;
        let answer = self.answer(symbol, patience).map_err(|error| match error {
            CallError::Died(text) => {
                self.describe_fault(symbol, arguments).map_or(CallError::Died(text), CallError::OutOfBounds)
            }
            other => other,
        })?;
        let (bits, notes) = match answer {
            Answer::Done { bits, notes } => (bits, notes),
            Answer::Refused(why) => return Err(CallError::Refused(why)),
            Answer::OutOfBounds { argument, behind } => {
                return Err(CallError::OutOfBounds(out_of_bounds(
                    "wrote",
                    symbol,
                    arguments,
                    argument as usize,
                    behind,
                )));
            }
        };
        self.fetch(arguments, &call.arguments)?;
        let tape = match place {
            Some(place) => {
                let tape = Tape::open(&place)?;
                // The open files stay readable, and nothing is left behind whatever happens.
                let _ = fs::remove_dir_all(place);
                Some(tape)
            }
            None => None,
        };
        Ok(Outcome { bits, tape, notes })
    }

    /// Copies arrays into shared memory.
    fn place(&mut self, arguments: &[Value<'_>]) -> Result<Vec<Argument>, CallError> {
        let mut end = PAGE;
        let mut sent = Vec::with_capacity(arguments.len());
        for argument in arguments {
            sent.push(match argument {
                Value::Integer(bits) => Argument::Value { class: Class::Integer, bits: *bits },
                Value::Float(value) => Argument::Value { class: Class::Float, bits: value.to_bits().into() },
                Value::Double(value) => Argument::Value { class: Class::Double, bits: value.to_bits() },
                Value::Null => Argument::Array(None),
                Value::Array(array) => {
                    let offset = end.next_multiple_of(ALIGNMENT);
                    let bytes = array.count.checked_mul(array.size).and_then(|bytes| offset.checked_add(bytes));
                    end = bytes.ok_or_else(|| CallError::Refused(format!("{} is too large", array.name)))?;
                    Argument::Array(Some(Array {
                        offset: offset as u64,
                        count: array.count as u64,
                        size: array.size as u64,
                        copied_in: array.source.is_some(),
                        copied_out: array.target.is_some(),
                        input: array.input,
                        output: array.output,
                    }))
                }
            });
        }
        self.memory.grow(end)?;
        for (argument, sent) in arguments.iter().zip(&sent) {
            if let (Value::Array(ArrayValue { source: Some(source), .. }), Argument::Array(Some(array))) =
                (argument, sent)
                && let Some(part) = self.memory.part(array.offset, source.len())
            {
                part.copy_from_slice(source);
            }
        }
        Ok(sent)
    }

    /// Copies arrays back.
    fn fetch(&mut self, arguments: &mut [Value<'_>], sent: &[Argument]) -> Result<(), CallError> {
        for (argument, sent) in arguments.iter_mut().zip(sent) {
            if let (Value::Array(ArrayValue { target: Some(target), .. }), Argument::Array(Some(array))) =
                (argument, sent)
                && let Some(part) = self.memory.part(array.offset, target.len())
            {
                target.copy_from_slice(part);
            }
        }
        Ok(())
    }

    fn new_recording(&mut self) -> Result<PathBuf, CallError> {
        let directory = self.directory.as_ref().ok_or_else(|| CallError::Start("the session is closed".to_owned()))?;
        self.recordings += 1;
        Ok(directory.path().join(self.recordings.to_string()))
    }

    /// Beside which argument the fault was that has ended the process.
    fn describe_fault(&self, symbol: &str, arguments: &[Value<'_>]) -> Option<String> {
        let number = self.memory.word(Word::Argument).load(Ordering::Relaxed).checked_sub(1)?;
        let behind = self.memory.word(Word::Behind).load(Ordering::Relaxed) != 0;
        Some(out_of_bounds("accessed memory", symbol, arguments, number as usize, behind))
    }

    fn describe_end(&self, symbol: &str, status: ExitStatus) -> String {
        match (status.signal(), status.code()) {
            (Some(number), _) => {
                let (name, reason) = signal(number);
                let address = self.memory.word(Word::Address).load(Ordering::Relaxed);
                let at = match number {
                    libc::SIGSEGV | libc::SIGBUS => format!(" at address {address:#x}"),
                    _ => String::new(),
                };
                format!("{symbol} crashed with {name}{at}: {reason}. The next call starts afresh")
            }
            (None, Some(code)) => format!(
                "{symbol} ended its process with exit({code}) instead of returning. Its process is a separate one, and the next call starts afresh"
            ),
            (None, None) => format!("{symbol} ended its process: {status}"),
        }
    }

    /// Ends the process at once.
    fn end(&mut self) {
        self.finished = true;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // It and its directory are the parent process's.
            if let Some(directory) = self.directory.take() {
                let _ = directory.keep();
            }
            return;
        }
        if self.finished {
            return;
        }
        // That ends it.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > GRACE {
                self.end();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn class_of(result: Option<Scalar>) -> Class {
    match result {
        None => Class::Void,
        Some(Scalar::Integer { .. }) => Class::Integer,
        Some(Scalar::Float) => Class::Float,
        Some(Scalar::Double) => Class::Double,
    }
}

fn out_of_bounds(what: &str, symbol: &str, arguments: &[Value<'_>], number: usize, behind: bool) -> String {
    let (name, count) = match arguments.get(number) {
        Some(Value::Array(array)) => (array.name, array.count),
        _ => ("an array", 0),
    };
    let side = if behind { "behind the end" } else { "before the beginning" };
    format!("{symbol} {what} {side} of {name}, which has {count} elements: is the array too small, or a size wrong?")
}

/// Where sessions keep shared memory and tapes: in memory, if there is such a file system.
fn base_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// What the names of session directories begin with; the id of the process follows.
const PREFIX: &str = "derivgrind-session-";

/// A new directory. Those of processes that were killed are removed.
fn session_directory() -> io::Result<TempDir> {
    let base = base_directory();
    for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another user's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let make = |base: &Path| tempfile::Builder::new().prefix(&prefix).tempdir_in(base);
    make(&base).or_else(|_| make(&std::env::temp_dir()))
}
