//! The tape: format, writer, reader, evaluator; knows no machine code.
