//! Dynamic binary instrumentation of Linux programs in one process; knows no derivatives.
