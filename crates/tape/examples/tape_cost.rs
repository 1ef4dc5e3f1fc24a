//! What the tape costs: bytes and time for each record, when writing and in sweeps.
//!
//! - `burgers`: 14 operations a grid cell, as in a Burgers solver (8 additions and subtractions, 6 multiplications and divisions), with
//!   operands in the same cell, in its neighbours and in the previous time step;
//! - `long body`: a loop body of 600 different operations;
//! - `irregular`: operations and operands at random, which no loop can be found in.
//!
//! `cargo run --release -p derivgrind-tape --example tape_cost [DIRECTORY [MILLIONS OF RECORDS [WORKLOAD]]]`
//!
//! Ratios compare processor time with that of filling records in memory, which the recorder's machine code has to do in any case.

use std::path::{Path, PathBuf};
use std::time::Duration;

use derivgrind_tape::{Chunk, Operation, Record, Tape, TapeWriter};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "/dev/shm/tape_cost".into()));
    let millions: usize = arguments.next().map_or(10, |text| text.parse().expect("a number"));
    let workloads: [(&str, Workload); 3] = [("burgers", burgers), ("long body", long_body), ("irregular", irregular)];
    let only = arguments.next();
    for (name, workload) in workloads.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
        println!("{name}");
        measure(&directory, workload, millions * 1_000_000);
    }
    std::fs::remove_dir_all(directory).expect("the directory to be removed");
}

/// Records about so many operations; returns the outputs.
type Workload = fn(usize, &mut Filler<'_>) -> Vec<u64>;

fn measure(directory: &Path, workload: Workload, size: usize) {
    // Filling records alone, as the recorder's machine code would do it.
    let writer = TapeWriter::create(directory).expect("a directory to write to");
    let mut filler = Filler::new(&writer, false);
    let start = Clock::start();
    workload(size, &mut filler);
    let fill = start.elapsed();
    let records = filler.records;
    drop(filler);
    drop(writer);
    report("filling records", fill, records, fill);

    for round in ["writing, fresh memory", "writing, warm memory"] {
        let writer = TapeWriter::create(directory).expect("a directory to write to");
        let mut filler = Filler::new(&writer, true);
        let start = Clock::start();
        let outputs = workload(size, &mut filler);
        (1..=filler.inputs).for_each(|index| writer.declare_input(index));
        outputs.iter().for_each(|index| writer.declare_output(*index));
        writer.submit(filler.chunk, filler.used);
        writer.finish().expect("a tape");
        report(round, start.elapsed(), records, fill);
    }

    let tape = Tape::open(directory).expect("a tape");
    println!("  {:24} {:7.2} bytes/record", "tape", tape.bytes() as f64 / records as f64);
    for lanes in [1, 2, 4, 8] {
        let bars = vec![vec![1.0; tape.outputs().len()]; lanes];
        let start = Clock::start();
        tape.reverse(&bars).expect("bar values");
        report(&format!("reverse, {lanes} seed vectors"), start.elapsed(), records, fill);
    }
    let dots = vec![vec![1.0; tape.inputs().len()]];
    let start = Clock::start();
    tape.forward(&dots).expect("dot values");
    report("forward", start.elapsed(), records, fill);
}

/// Real time and processor time of all threads.
struct Clock([Duration; 2]);

impl Clock {
    fn now() -> [Duration; 2] {
        [libc::CLOCK_MONOTONIC, libc::CLOCK_PROCESS_CPUTIME_ID].map(|clock| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the clocks exist on Linux, and `time` is a place for the result.
            unsafe { libc::clock_gettime(clock, &mut time) };
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        })
    }

    fn start() -> Clock {
        Clock(Clock::now())
    }

    fn elapsed(&self) -> [Duration; 2] {
        let [real, processor] = Clock::now();
        [real - self.0[0], processor - self.0[1]]
    }
}

fn report(what: &str, time: [Duration; 2], records: u64, fill: [Duration; 2]) {
    let [real, processor] = time.map(|time| time.as_secs_f64() * 1e9 / records as f64);
    let ratio = time[1].as_secs_f64() / fill[1].as_secs_f64();
    println!("  {what:24} {real:7.2} ns/record, processors {processor:7.2} ns/record, {ratio:6.2} x filling");
}

/// Fills chunk after chunk, or always the same one.
struct Filler<'a> {
    writer: &'a TapeWriter,
    write: bool,
    chunk: Chunk,
    used: usize,
    records: u64,
    inputs: u64,
}

impl Filler<'_> {
    fn new(writer: &TapeWriter, write: bool) -> Filler<'_> {
        Filler { writer, write, chunk: writer.take_chunk(), used: 1, records: 1, inputs: 0 }
    }

    #[inline(always)]
    fn push(&mut self, operation: Operation, operands: [u64; 2], values: [f64; 2]) -> u64 {
        if self.used == Chunk::RECORDS {
            self.next_chunk();
        }
        self.chunk.as_mut_slice()[self.used] = Record::binary64(operation, operands, values);
        self.used += 1;
        self.records += 1;
        self.records - 1
    }

    fn input(&mut self) -> u64 {
        self.inputs += 1;
        self.push(Operation::Input, [0, 0], [self.inputs as f64, 0.0])
    }

    #[cold]
    fn next_chunk(&mut self) {
        if self.write {
            let full = std::mem::replace(&mut self.chunk, self.writer.take_chunk());
            self.writer.submit(full, self.used);
        }
        self.used = 0;
    }
}

/// Time steps of a two-dimensional upwind scheme for u and v.
fn burgers(size: usize, out: &mut Filler<'_>) -> Vec<u64> {
    let n = 300;
    let cells = n * n;
    let mut old: Vec<[u64; 2]> = (0..cells).map(|_| [out.input(), out.input()]).collect();
    let mut values: Vec<[f64; 2]> = (0..cells).map(|k| [(k as f64 * 0.1).sin(), (k as f64 * 0.2).cos()]).collect();
    for _ in 0..size / (14 * cells) {
        let mut new = old.clone();
        for row in 1..n - 1 {
            for column in 1..n - 1 {
                let k = row * n + column;
                let (here, west, north) = (old[k], old[k - 1], old[k - n]);
                let (x, y) = (values[k], values[k - 1]);
                values[k][0] = x[0] * 0.999 + y[0] * 0.001;
                // One component: u -= dt (u (u - u_west) / h + v (u - u_north) / h), with 7 operations.
                for component in 0..2 {
                    let u = here[component];
                    let dx = out.push(Operation::Sub, [u, west[component]], [x[0], y[0]]);
                    let dy = out.push(Operation::Sub, [u, north[component]], [x[0], y[0]]);
                    let fx = out.push(Operation::Mul, [here[0], dx], [x[0], x[0] - y[0]]);
                    let fy = out.push(Operation::Mul, [here[1], dy], [x[1], x[1] - y[1]]);
                    let sum = out.push(Operation::Add, [fx, fy], [x[0], x[1]]);
                    let step = out.push(Operation::Mul, [sum, 0], [x[0], 0.001 * 300.0]);
                    new[k][component] = out.push(Operation::Sub, [u, step], [x[0], x[1]]);
                }
            }
        }
        old = new;
    }
    old.into_iter().flatten().collect()
}

/// A pseudo-random number below 2^31.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize
}

const OPERATIONS: [Operation; 8] = [
    Operation::Add,
    Operation::Sub,
    Operation::Mul,
    Operation::Add,
    Operation::Div,
    Operation::Mul,
    Operation::Sub,
    Operation::Sqrt,
];

fn long_body(size: usize, out: &mut Filler<'_>) -> Vec<u64> {
    let mut recent: Vec<u64> = (0..100).map(|_| out.input()).collect();
    for iteration in 0..size / 600 {
        let mut state = 1;
        for step in 0..600 {
            let operation = OPERATIONS[random(&mut state) % OPERATIONS.len()];
            let [first, second, target] = [0; 3].map(|_| random(&mut state) % recent.len());
            let values = [1.0 + iteration as f64 * 1e-9, 1.0 + step as f64 * 1e-9];
            recent[target] = out.push(operation, [recent[first], recent[second]], values);
        }
    }
    recent
}

fn irregular(size: usize, out: &mut Filler<'_>) -> Vec<u64> {
    let mut recent: Vec<u64> = (0..1000).map(|_| out.input()).collect();
    let mut state = 1;
    for _ in 0..size {
        let operation = OPERATIONS[random(&mut state) % OPERATIONS.len()];
        let [first, second, target] = [0; 3].map(|_| random(&mut state) % recent.len());
        let values = [1.0 + first as f64 * 1e-9, 1.0 + second as f64 * 1e-9];
        recent[target] = out.push(operation, [recent[first], recent[second]], values);
    }
    recent
}
