//! The request itself: the instructions that the tool recognises, and the numbers of the requests.

/// What is requested. Numbers count up from `0x44470000` (`'D'`, `'G'`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Number {
    /// Variable's address, address for the dot value, size.
    GetDotValue = 0x4447_0000,
    /// Variable's address, address of the dot value, size.
    SetDotValue,
    /// Summand and subtrahend of the thread's counter; the result is its previous value.
    Disable,
    /// Variable's address, address for the index, size of the variable (0: unknown).
    GetIndex,
    /// Variable's address, address of the index, size of the variable (0: unknown).
    SetIndex,
    /// Address of six addresses: of two operands' indices, of two partial derivatives, of the new index, of the value.
    NewIndex,
    /// The same; the new index is not 0 even if both operands' are.
    NewIndexNoActivityAnalysis,
    /// 0 for inputs or 1 for outputs, address of the index.
    IndexToFile,
    /// The result is `d` in forward mode, `b` while recording, `t` in the bit-trick finder.
    GetMode,
    /// Variable's address, addresses of the activity and the discreteness mask, size.
    GetFlags,
    /// Variable's address, addresses of the activity and the discreteness mask, size.
    SetFlags,
    /// As `GetDotValue`, and a direction, counted from 0.
    GetDotValueDirection = 0x4447_0010,
    /// As `SetDotValue`, and a direction, counted from 0.
    SetDotValueDirection,
    /// The result is the number of directions.
    GetDirections,
    /// 0 for inputs or 1 for outputs, address of the first element, number of elements, size of an element; the result is the number of
    /// elements.
    DeclareArray = 0x4447_0020,
    /// Address of the zero-terminated path of a directory: a new recording begins there, and everything is passive; the result is 1, or 2 if
    /// it cannot be written there.
    StartRecording,
    /// Address of a buffer, its size: the recording is complete, and everything is passive. The buffer gets a zero-terminated text: what was
    /// not differentiated, or what went wrong. The result is 1, or 2 if something went wrong.
    FinishRecording,
}

/// Performs a request and returns its result, or `otherwise` if the program does not run under the tool.
///
/// The tool reads and writes the memory to which the arguments point; outside the tool nothing is read or written.
#[cfg(target_arch = "x86_64")]
pub fn request(otherwise: u64, number: Number, arguments: [u64; 5]) -> u64 {
    let [first, second, third, fourth, fifth] = arguments;
    let words = [number as u64, first, second, third, fourth, fifth];
    let mut result = otherwise;
    // SAFETY: natively the rotations add up to 128 bits, which leaves RDI as it was, and RBX is exchanged with itself. The
    // tool writes to what the arguments point to, which the compiler has to assume without `nomem`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const words,
            inout("rdx") result,
            options(nostack),
        );
    }
    result
}

/// There is no tool for this processor: returns `otherwise`.
#[cfg(not(target_arch = "x86_64"))]
pub fn request(otherwise: u64, _number: Number, _arguments: [u64; 5]) -> u64 {
    otherwise
}
