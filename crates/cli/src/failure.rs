//! Errors and exit codes.

use derivgrind_ad::instrument::EXIT_LOST;

/// Exit codes of our own (`docs/exit-codes.md`). A command that runs a program otherwise exits as the program does.
///
/// Numbers from 64 on have the meaning that they have in `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The result is wrong: `demo` found a gradient that differs from the analytic one.
    Wrong,
    /// Arguments that cannot be understood.
    Usage,
    /// Activity was lost, and `--strict` makes that an error.
    Lost,
    /// A tape that is missing, incomplete, damaged, or no tape.
    Tape,
    /// Bar or dot values for the evaluation that are missing or cannot be understood.
    Seeds,
    /// Something that this version or installation does not have.
    Unavailable,
    /// An error in derivgrind.
    Internal,
    /// The operating system has no more of something: memory, processes.
    System,
    /// A file or directory that cannot be created.
    CannotCreate,
    /// Reading or writing failed.
    InputOutput,
    /// Chosen by the engine: 125 if it cannot be set up, 126 and 127 for a program that cannot be run or does not exist.
    Engine(u8),
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Wrong => 1,
            Exit::Usage => 2,
            Exit::Lost => EXIT_LOST as u8,
            Exit::Tape => 65,
            Exit::Seeds => 66,
            Exit::Unavailable => 69,
            Exit::Internal => 70,
            Exit::System => 71,
            Exit::CannotCreate => 73,
            Exit::InputOutput => 74,
            Exit::Engine(code) => code,
        }
    }
}

/// Why a command fails, in the user's terms: what, where, what to do.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The message, without prefix.
    pub message: String,
}

impl Failure {
    /// A failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }
}
