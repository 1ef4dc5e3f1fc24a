//! Measures the tape on a mix of operations like that of a Burgers solver: 14 operations a grid cell (8 additions and subtractions, 6
//! multiplications and divisions), operands in the same cell, in its neighbours and in the previous time step.
//!
//! `cargo run --release -p derivgrind-tape --example burgers_mix [DIRECTORY [CELLS [STEPS]]]`

use std::path::PathBuf;
use std::time::Duration;

use derivgrind_tape::{Chunk, Operation, Record, Tape, TapeWriter};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "/dev/shm/burgers_mix".into()));
    let mut number = |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (n, steps) = (number(300), number(16));

    // Filling records alone, as the recorder's machine code would do it.
    let writer = TapeWriter::create(&directory).expect("a directory to write to");
    let mut filled = Filler { chunk: writer.take_chunk(), used: 1, writer: None };
    let start = Clock::start();
    let (records, _) = burgers(n, steps, &mut filled);
    let fill = start.elapsed()[1];
    drop((filled, writer));

    for round in ["fresh memory", "warm memory"] {
        let writer = TapeWriter::create(&directory).expect("a directory to write to");
        let mut filler = Filler { chunk: writer.take_chunk(), used: 1, writer: Some(&writer) };
        let start = Clock::start();
        let (_, outputs) = burgers(n, steps, &mut filler);
        (1..=2 * (n * n) as u64).for_each(|index| writer.declare_input(index));
        outputs.iter().for_each(|index| writer.declare_output(*index));
        writer.submit(filler.chunk, filler.used);
        writer.finish().expect("a tape");
        report(round, start.elapsed(), records, fill);
    }

    let tape = Tape::open(&directory).expect("a tape");
    println!("{:28} {:8.2} bytes/record", "tape", tape.bytes() as f64 / records as f64);
    for lanes in [1, 2, 4, 8] {
        for decoders in [0, 1] {
            let bars = vec![vec![1.0; tape.outputs().len()]; lanes];
            let start = Clock::start();
            tape.sweep().decoders(decoders).reverse(&bars).expect("bar values");
            report(&format!("reverse, {lanes} lanes, {decoders} decoders"), start.elapsed(), records, fill);
        }
    }
    let dots = vec![vec![1.0; tape.inputs().len()]];
    let start = Clock::start();
    tape.forward(&dots).expect("dot values");
    report("forward", start.elapsed(), records, fill);
    std::fs::remove_dir_all(directory).expect("the directory to be removed");
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

fn report(what: &str, time: [Duration; 2], records: u64, fill: Duration) {
    let [real, processor] = time.map(|time| time.as_secs_f64() * 1e9 / records as f64);
    let ratio = time[1].as_secs_f64() / fill.as_secs_f64();
    println!("{what:28} {real:7.2} ns/record, processors {processor:7.2} ns/record, {ratio:6.2} x filling records");
}

/// Fills chunk after chunk; without a writer always the same one.
struct Filler<'a> {
    chunk: Chunk,
    used: usize,
    writer: Option<&'a TapeWriter>,
}

impl Filler<'_> {
    #[inline(always)]
    fn push(&mut self, record: Record) -> u64 {
        if self.used == Chunk::RECORDS {
            self.next_chunk();
        }
        self.chunk.as_mut_slice()[self.used] = record;
        self.used += 1;
        self.chunk.first_index() + self.used as u64 - 1
    }

    #[cold]
    fn next_chunk(&mut self) {
        if let Some(writer) = self.writer {
            let full = std::mem::replace(&mut self.chunk, writer.take_chunk());
            writer.submit(full, self.used);
        }
        self.used = 0;
    }
}

/// Time steps of a two-dimensional upwind scheme for u and v; returns the number of records and the outputs.
fn burgers(n: usize, steps: usize, out: &mut Filler<'_>) -> (u64, Vec<u64>) {
    let cells = n * n;
    let mut old: Vec<[u64; 2]> = (0..cells).map(|_| [out.push(Record::input()), out.push(Record::input())]).collect();
    let mut values: Vec<[f64; 2]> = (0..cells).map(|k| [(k as f64 * 0.1).sin(), (k as f64 * 0.2).cos()]).collect();
    let mut records = 2 * cells as u64;
    for _ in 0..steps {
        let mut new = old.clone();
        for row in 1..n - 1 {
            for column in 1..n - 1 {
                let k = row * n + column;
                let (here, west, north) = (old[k], old[k - 1], old[k - n]);
                let (x, y) = (values[k], values[k - 1]);
                values[k][0] = x[0] * 0.999 + y[0] * 0.001;
                // One component: u -= dt (u (u - u_west) / h + v (u - u_north) / h), with 7 operations.
                for component in 0..2 {
                    let push = |out: &mut Filler<'_>, operation, operands, values| {
                        out.push(Record::binary64(operation, operands, values))
                    };
                    let u = here[component];
                    let dx = push(out, Operation::Sub, [u, west[component]], [x[0], y[0]]);
                    let dy = push(out, Operation::Sub, [u, north[component]], [x[0], y[0]]);
                    let fx = push(out, Operation::Mul, [here[0], dx], [x[0], x[0] - y[0]]);
                    let fy = push(out, Operation::Mul, [here[1], dy], [x[1], x[1] - y[1]]);
                    let sum = push(out, Operation::Add, [fx, fy], [x[0], x[1]]);
                    let step = push(out, Operation::Mul, [sum, 0], [x[0], 0.001 * 300.0]);
                    new[k][component] = push(out, Operation::Sub, [u, step], [x[0], x[1]]);
                }
                records += 14;
            }
        }
        old = new;
    }
    (records, old.into_iter().flatten().collect())
}
