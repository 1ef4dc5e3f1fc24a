//! The client request sequence: four rotations of RDI that cancel, and a marker instruction (Valgrind's amd64 convention).

/// What the marker instruction behind the rotations asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `xchg rbx,rbx`: RAX points to six words, RDX holds the default result, the result comes back in RDX.
    Call,
    /// `xchg rcx,rcx`: the address of the wrapped function to RAX (we redirect nothing: 0).
    WrappedFunction,
    /// `xchg rdx,rdx`: `call rax` without redirection.
    CallUnredirected,
}

/// `rol rdi,3; rol rdi,13; rol rdi,61; rol rdi,51`
const PREAMBLE: [u8; 16] =
    [0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33];

const MARKERS: [([u8; 3], Request); 3] = [
    ([0x48, 0x87, 0xdb], Request::Call),
    ([0x48, 0x87, 0xc9], Request::WrappedFunction),
    ([0x48, 0x87, 0xd2], Request::CallUnredirected),
];

/// The request at the beginning of `code`, with the length of the whole sequence.
pub fn recognise(code: &[u8]) -> Option<(Request, u64)> {
    let rest = code.strip_prefix(&PREAMBLE)?;
    MARKERS
        .iter()
        .find(|(marker, _)| rest.starts_with(marker))
        .map(|(marker, request)| (*request, (PREAMBLE.len() + marker.len()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_sequence_counts() {
        let mut code = PREAMBLE.to_vec();
        assert_eq!(recognise(&code), None);
        code.extend([0x48, 0x87, 0xdb, 0x90]);
        assert_eq!(recognise(&code), Some((Request::Call, 19)));
        code[3] = 4;
        assert_eq!(recognise(&code), None);
    }
}
