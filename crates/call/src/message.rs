//! What a session and its worker tell each other: words and strings over a socket; arrays lie in shared memory.

use std::io::{self, Read, Write};

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Load a library; the first request.
    Load {
        /// Its path.
        library: String,
        /// The file of the shared memory.
        memory: String,
    },
    /// Find a function.
    Find {
        /// Its symbol.
        symbol: String,
    },
    /// Call a function.
    Call(Call),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Address of the function in the worker.
    pub function: u64,
    /// Size of the shared memory.
    pub memory: u64,
    /// What kind of result there is.
    pub result: Class,
    /// Where to record; empty for a call without recording.
    pub directory: String,
    /// The arguments.
    pub arguments: Vec<Argument>,
}

/// How a value is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// There is none.
    Void,
    /// In a general register.
    Integer,
    /// In a vector register, as binary32.
    Float,
    /// In a vector register, as binary64.
    Double,
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument {
    /// A scalar.
    Value {
        /// How it is passed.
        class: Class,
        /// The bits.
        bits: u64,
    },
    /// The address of an array; a null pointer if there is no array.
    Array(Option<Array>),
}

/// An array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    /// Offset in shared memory.
    pub offset: u64,
    /// Number of elements.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// The content is copied from shared memory before the call; otherwise it is zero.
    pub copied_in: bool,
    /// The content is copied to shared memory after the call.
    pub copied_out: bool,
    /// The elements are inputs.
    pub input: bool,
    /// The elements are outputs.
    pub output: bool,
}

/// A worker's answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It is done.
    Done {
        /// The address of a function, or the bits of a result.
        bits: u64,
        /// What was not differentiated.
        notes: String,
    },
    /// It could not be done, because of this.
    Refused(String),
    /// The function has written beyond an array.
    OutOfBounds {
        /// Number of the argument, from 0.
        argument: u64,
        /// Whether it was behind the array's end.
        behind: bool,
    },
}

/// The bytes of a message.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.word(*word));
    }

    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Reads what [`Encoder`] has written. A message that is too short, which no worker sends, yields zeros.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn bytes(&mut self, count: usize) -> &[u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    fn text(&mut self) -> String {
        let length = usize::try_from(self.word()).unwrap_or(usize::MAX);
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }
}

impl Class {
    const ALL: [Class; 4] = [Class::Void, Class::Integer, Class::Float, Class::Double];

    fn from_word(word: u64) -> Class {
        usize::try_from(word).ok().and_then(|word| Self::ALL.get(word)).copied().unwrap_or(Class::Void)
    }
}

/// Words that say which message or argument follows.
mod tag {
    pub const LOAD: u64 = 1;
    pub const FIND: u64 = 2;
    pub const CALL: u64 = 3;
    pub const VALUE: u64 = 1;
    pub const ARRAY: u64 = 2;
    pub const DONE: u64 = 1;
    pub const REFUSED: u64 = 2;
    pub const OUT_OF_BOUNDS: u64 = 3;
}

impl Request {
    /// Sends it.
    pub(crate) fn send(&self, to: impl Write) -> io::Result<()> {
        let mut encoder = Encoder::default();
        match self {
            Request::Load { library, memory } => {
                encoder.word(tag::LOAD);
                encoder.text(library);
                encoder.text(memory);
            }
            Request::Find { symbol } => {
                encoder.word(tag::FIND);
                encoder.text(symbol);
            }
            Request::Call(call) => {
                encoder.word(tag::CALL);
                encoder.word(call.function);
                encoder.word(call.memory);
                encoder.word(call.result as u64);
                encoder.text(&call.directory);
                encoder.word(call.arguments.len() as u64);
                for argument in &call.arguments {
                    argument.encode(&mut encoder);
                }
            }
        }
        send(to, &encoder.0)
    }

    /// Waits for one; `None` at the end.
    pub(crate) fn receive(from: impl Read) -> io::Result<Option<Request>> {
        let Some(bytes) = receive(from)? else { return Ok(None) };
        let mut decoder = Decoder(&bytes);
        Ok(Some(match decoder.word() {
            tag::LOAD => Request::Load { library: decoder.text(), memory: decoder.text() },
            tag::FIND => Request::Find { symbol: decoder.text() },
            tag::CALL => Request::Call(Call {
                function: decoder.word(),
                memory: decoder.word(),
                result: Class::from_word(decoder.word()),
                directory: decoder.text(),
                arguments: (0..decoder.word().min(1 << 10)).map(|_| Argument::decode(&mut decoder)).collect(),
            }),
            other => return Err(io::Error::other(format!("unknown request {other}"))),
        }))
    }
}

impl Argument {
    fn encode(&self, encoder: &mut Encoder) {
        match self {
            Argument::Value { class, bits } => encoder.words(&[tag::VALUE, *class as u64, *bits]),
            Argument::Array(None) => encoder.words(&[tag::ARRAY, 0]),
            Argument::Array(Some(array)) => {
                let roles = [array.copied_in, array.copied_out, array.input, array.output];
                let roles = roles.iter().enumerate().fold(0, |all, (bit, role)| all | u64::from(*role) << bit);
                encoder.words(&[tag::ARRAY, 1, array.offset, array.count, array.size, roles]);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Argument {
        if decoder.word() == tag::VALUE {
            return Argument::Value { class: Class::from_word(decoder.word()), bits: decoder.word() };
        }
        if decoder.word() == 0 {
            return Argument::Array(None);
        }
        let [offset, count, size, roles] = std::array::from_fn(|_| decoder.word());
        let role = |bit: u32| roles >> bit & 1 != 0;
        let (copied_in, copied_out, input, output) = (role(0), role(1), role(2), role(3));
        Argument::Array(Some(Array { offset, count, size, copied_in, copied_out, input, output }))
    }
}

impl Answer {
    /// Sends it.
    pub(crate) fn send(&self, to: impl Write) -> io::Result<()> {
        let mut encoder = Encoder::default();
        match self {
            Answer::Done { bits, notes } => {
                encoder.word(tag::DONE);
                encoder.word(*bits);
                encoder.text(notes);
            }
            Answer::Refused(why) => {
                encoder.word(tag::REFUSED);
                encoder.text(why);
            }
            Answer::OutOfBounds { argument, behind } => {
                encoder.word(tag::OUT_OF_BOUNDS);
                encoder.word(*argument);
                encoder.word(u64::from(*behind));
            }
        }
        send(to, &encoder.0)
    }

    /// Waits for one; `None` if the worker has ended.
    pub(crate) fn receive(from: impl Read) -> io::Result<Option<Answer>> {
        let Some(bytes) = receive(from)? else { return Ok(None) };
        let mut decoder = Decoder(&bytes);
        Ok(Some(match decoder.word() {
            tag::DONE => Answer::Done { bits: decoder.word(), notes: decoder.text() },
            tag::OUT_OF_BOUNDS => Answer::OutOfBounds { argument: decoder.word(), behind: decoder.word() != 0 },
            _ => Answer::Refused(decoder.text()),
        }))
    }
}

/// A message is its length and its bytes.
fn send(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut message = (bytes.len() as u64).to_le_bytes().to_vec();
    message.extend_from_slice(bytes);
    to.write_all(&message)
}

fn receive(mut from: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; usize::try_from(u64::from_le_bytes(length)).unwrap_or(0)];
    match from.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let array =
            Array { offset: 4096, count: 7, size: 8, copied_in: true, copied_out: false, input: true, output: false };
        let requests = [
            Request::Load { library: "/a/ü.so".to_owned(), memory: String::new() },
            Request::Find { symbol: "f".to_owned() },
            Request::Call(Call {
                function: 1,
                memory: 2,
                result: Class::Double,
                directory: "d".to_owned(),
                arguments: vec![
                    Argument::Value { class: Class::Float, bits: 3 },
                    Argument::Array(None),
                    Argument::Array(Some(array)),
                    Argument::Array(Some(Array { copied_in: false, output: true, ..array })),
                    Argument::Value { class: Class::Integer, bits: u64::MAX },
                ],
            }),
        ];
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.send(&mut bytes).unwrap());
        let mut from = bytes.as_slice();
        for request in requests {
            assert_eq!(Request::receive(&mut from).unwrap(), Some(request));
        }
        assert_eq!(Request::receive(&mut from).unwrap(), None);
        let answers = [
            Answer::Done { bits: 5, notes: "n".to_owned() },
            Answer::Refused("why".to_owned()),
            Answer::OutOfBounds { argument: 2, behind: true },
        ];
        let mut bytes = Vec::new();
        answers.iter().for_each(|answer| answer.send(&mut bytes).unwrap());
        let mut from = bytes.as_slice();
        for answer in answers {
            assert_eq!(Answer::receive(&mut from).unwrap(), Some(answer));
        }
        assert_eq!(Answer::receive(&bytes[..20]).unwrap(), None);
    }
}
