//! Tapes as files: several threads, forked processes, interrupted and damaged recordings, full disks, conversion.

mod common;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use common::{Recorder, random_tape};
use derivgrind_tape::{Chunk, Format, Operation, Process, Record, Tape, TapeError, TapeWriter, import};
use proptest::prelude::*;

/// A chain of records that adds up: each thread's part begins with the end of the part before.
fn add_one(chunk: &mut Chunk, used: &mut usize, operand: u64) -> u64 {
    chunk.as_mut_slice()[*used] = Record::binary64(Operation::Add, [operand, 0], [0.0; 2]);
    *used += 1;
    chunk.first_index() + *used as u64 - 1
}

/// `y = factor * x`, `length` times over, in the writer's present recording.
fn record_powers(writer: &TapeWriter, factor: f64, length: usize) {
    let (mut chunk, mut operand) = (writer.take_chunk(), 1);
    chunk.as_mut_slice()[1] = Record::input();
    writer.declare_inputs(&[1]);
    let mut used = 2;
    for _ in 0..length {
        if used == Chunk::RECORDS {
            writer.submit(chunk, used);
            (chunk, used) = (writer.take_chunk(), 0);
        }
        chunk.as_mut_slice()[used] = Record::binary64(Operation::Partials, [operand, 0], [factor, 0.0]);
        operand = chunk.first_index() + used as u64;
        used += 1;
    }
    writer.declare_outputs(&[operand]);
    writer.submit(chunk, used);
}

/// Short recordings need no background thread, long ones do.
#[test]
fn a_writer_makes_one_recording_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: usize| directory.path().join(number.to_string());
    let lengths = [3, 5, 200_000, 1, 70_000];
    let writer = TapeWriter::create(&place(0)).unwrap();
    for (number, &length) in lengths.iter().enumerate() {
        if number > 0 {
            writer.restart(&place(number)).unwrap();
        }
        assert_eq!(writer.directory(), place(number).canonicalize().unwrap());
        record_powers(&writer, if number % 2 == 0 { -1.0 } else { 2.0 }, length);
    }
    // A place where nothing can be recorded leaves the recording alone.
    fs::write(directory.path().join("file"), "").unwrap();
    assert!(matches!(writer.restart(&directory.path().join("file")), Err(TapeError::NotADirectory { .. })));
    writer.finish().unwrap();
    for (number, &length) in lengths.iter().enumerate() {
        let tape = Tape::open(&place(number)).unwrap();
        let factor: f64 = if number % 2 == 0 { -1.0 } else { 2.0 };
        assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[factor.powi(length as i32)]], "recording {number}");
    }
}

#[test]
fn threads_record_side_by_side() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 5;
    let directory = tempfile::tempdir().unwrap();
    let writer = TapeWriter::create(directory.path()).unwrap();
    let mut first = writer.take_chunk();
    first.as_mut_slice()[1] = Record::input();
    writer.declare_input(1);
    writer.submit(first, 2);
    let barrier = Barrier::new(THREADS);
    let ends: Vec<u64> = thread::scope(|scope| {
        let worker = |number: usize| {
            let (writer, barrier) = (&writer, &barrier);
            move || {
                let mut last = 1;
                for round in 0..ROUNDS {
                    barrier.wait();
                    let size = 1 + number * 1000 + round;
                    let mut chunk = if round % 2 == 0 { writer.take_chunk() } else { writer.take_chunk_of(size) };
                    let mut used = 0;
                    // Chunks are abandoned at different places and come to the file in any order.
                    for _ in 0..size {
                        last = add_one(&mut chunk, &mut used, last);
                    }
                    writer.submit(chunk, used);
                }
                last
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(worker(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    ends.iter().for_each(|end| writer.declare_output(*end));
    writer.finish().unwrap();
    let submitted = writer.indices();
    let tape = Tape::open(directory.path()).unwrap();
    tape.validate().unwrap();
    assert_eq!(tape.reverse(&[[1.0; THREADS]]).unwrap(), [[THREADS as f64]]);
    assert_eq!(tape.forward(&[[2.0]]).unwrap(), [[2.0; THREADS]]);
    let statistics = tape.statistics().unwrap();
    assert_eq!(statistics.by_operands[1] + 2, submitted);
    assert_eq!(statistics.by_operands.iter().sum::<u64>(), tape.index_limit());
}

#[test]
fn a_chunk_that_was_never_submitted_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let writer = TapeWriter::create(directory.path()).unwrap();
    let mut first = writer.take_chunk();
    first.as_mut_slice()[1] = Record::input();
    writer.declare_input(1);
    writer.submit(first, 2);
    let (mut lost, mut used) = (writer.take_chunk(), 0);
    let middle = add_one(&mut lost, &mut used, 1);
    drop(lost);
    let (mut last, mut used) = (writer.take_chunk(), 0);
    let end = add_one(&mut last, &mut used, middle);
    writer.declare_output(end);
    writer.submit(last, used);
    writer.finish().unwrap();
    let tape = Tape::open(directory.path()).unwrap();
    for error in
        [tape.validate().unwrap_err(), tape.reverse(&[[1.0]]).unwrap_err(), tape.forward(&[[1.0]]).unwrap_err()]
    {
        let TapeError::Order { index, operand, .. } = &error else { panic!("{error}") };
        assert_eq!((*index, *operand), (end, middle));
        assert!(error.to_string().contains("has no record"), "{error}");
    }
}

#[test]
fn a_new_recording_replaces_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some/where");
    for inputs in [5, 2] {
        let writer = TapeWriter::create(&path).unwrap();
        fs::write(path.join("dg-tape.123"), "left over").unwrap();
        let chunk = writer.take_chunk();
        (1..=inputs).for_each(|index| writer.declare_input(index));
        let mut chunk = chunk;
        chunk.as_mut_slice()[1..10].fill(Record::input());
        writer.submit(chunk, 10);
        writer.finish().unwrap();
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(Tape::open(&path).unwrap().inputs().len(), inputs as usize);
    }
    TapeWriter::create(&path).unwrap();
    assert!(!path.join("dg-tape.123").exists());
}

#[test]
fn a_finished_recording_can_be_resumed() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let mut index = x;
    for _ in 0..2 * Chunk::RECORDS {
        index = recorder.push(Record::binary64(Operation::Copy, [index, 0], [0.0; 2]));
    }
    let first = recorder.finish();
    assert_eq!(first.index_limit(), index + 1);
    recorder.writer.resume().unwrap();
    assert!(matches!(Tape::open(first.directory()), Err(TapeError::Incomplete { .. })));
    for _ in 0..100_000 {
        index = recorder.push(Record::binary64(Operation::Copy, [index, 0], [0.0; 2]));
    }
    recorder.output(index);
    let tape = recorder.finish();
    tape.validate().unwrap();
    assert_eq!(tape.reverse(&[[1.0]]).unwrap(), [[1.0]]);
    // Nothing happens to a recording that has not been finished.
    let other = Recorder::new();
    other.input();
    other.writer.resume().unwrap();
    assert_eq!(other.finish().inputs(), [1]);
}

#[test]
fn descriptors_are_out_of_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let writer = TapeWriter::create(directory.path()).unwrap();
    assert!(writer.descriptors().iter().all(|descriptor| *descriptor >= 64), "{:?}", writer.descriptors());
}

#[test]
fn unusable_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(TapeWriter::create(&file), Err(TapeError::NotADirectory { .. })));
    assert!(matches!(TapeWriter::create(&file.join("below")), Err(TapeError::Io { .. })));
    assert!(matches!(TapeWriter::create(Path::new("/proc/nothing")), Err(TapeError::Io { .. })));
    assert!(matches!(Tape::open(&file), Err(TapeError::NotADirectory { .. })));
    assert!(matches!(Tape::open(directory.path()), Err(TapeError::NoTape { .. })));
    assert!(matches!(Tape::open(&directory.path().join("none")), Err(TapeError::Io { .. })));
}

#[test]
fn a_full_disk_stops_the_recording_but_not_the_program() {
    let directory = tempfile::tempdir().unwrap();
    symlink("/dev/full", directory.path().join("dg-input-indices")).unwrap();
    let writer = TapeWriter::create(directory.path()).unwrap();
    writer.declare_input(1);
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("dg-input-indices: No space left on device"), "{error}");
    fs::remove_file(directory.path().join("dg-input-indices")).unwrap();
    fs::write(directory.path().join("dg-input-indices"), "").unwrap();
    assert!(matches!(Tape::open(directory.path()), Err(TapeError::Incomplete { .. })));

    let directory = tempfile::tempdir().unwrap();
    symlink("/dev/full", directory.path().join("dg-tape")).unwrap();
    // Here not even the header can be written.
    let error = TapeWriter::create(directory.path()).err().unwrap();
    assert!(error.to_string().contains("dg-tape: No space left on device"), "{error}");
}

/// Mounts a file system of so many bytes, for the calling thread only; `false` if that is not permitted.
fn mount_small_disk(directory: &Path, bytes: usize) -> bool {
    let target = CString::new(directory.as_os_str().as_bytes()).unwrap();
    let options = CString::new(format!("size={bytes}")).unwrap();
    let (none, root, kind) = (std::ptr::null(), c"/".as_ptr(), c"tmpfs".as_ptr());
    // SAFETY: the strings live until the calls return; the thread's own mount namespace keeps the mount from everything else.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, std::ptr::null()) == 0
            && libc::mount(kind, target.as_ptr(), kind, 0, options.as_ptr().cast()) == 0
    }
}

#[test]
fn what_fits_on_a_small_disk_can_be_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let test = move || {
        if !mount_small_disk(path, 1 << 20) {
            eprintln!("not permitted to mount a file system: nothing tested");
            return;
        }
        let writer = TapeWriter::create(path).unwrap();
        let mut recorded = 1;
        for _ in 0..100 {
            let mut chunk = writer.take_chunk();
            let start = chunk.start();
            let first_index = chunk.first_index();
            for (index, record) in (first_index..).zip(chunk.as_mut_slice()).skip(start) {
                *record = Record::binary64(Operation::Mul, [index - 1, 0], [0.0, index as f64]);
                recorded = index;
            }
            writer.submit(chunk, Chunk::RECORDS);
        }
        assert_eq!(recorded + 1, 100 * Chunk::RECORDS as u64);
        let error = writer.finish().unwrap_err().to_string();
        assert!(error.contains("dg-tape: No space left on device"), "{error}");
        assert!(matches!(Tape::open(path), Err(TapeError::Incomplete { .. })));
        let rest = Tape::salvage(path, Process::Main).unwrap().statistics().unwrap();
        let found = rest.by_operands[1] as usize;
        assert!((Chunk::RECORDS..100 * Chunk::RECORDS).contains(&found), "{found}");
    };
    thread::scope(|scope| scope.spawn(test).join().unwrap());
}

/// A recording of one long chain, without its end.
fn interrupted(directory: &Path, chunks: usize) -> u64 {
    let writer = TapeWriter::create(directory).unwrap();
    let mut last = 0;
    for _ in 0..chunks {
        let mut chunk = writer.take_chunk();
        let mut used = chunk.start();
        if used == 1 {
            chunk.as_mut_slice()[1] = Record::input();
            (used, last) = (2, 1);
        }
        while used < Chunk::RECORDS {
            last = add_one(&mut chunk, &mut used, last);
        }
        writer.submit(chunk, used);
    }
    last
}

#[test]
fn an_interrupted_recording_is_recognised_and_can_be_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let last = interrupted(directory.path(), 5);
    let error = Tape::open(directory.path()).unwrap_err();
    assert!(matches!(error, TapeError::Incomplete { .. }));
    assert!(error.to_string().contains("killed"), "{error}");
    let tape = Tape::salvage(directory.path(), Process::Main).unwrap();
    assert!(tape.require_complete().is_err());
    assert_eq!(tape.statistics().unwrap().by_operands[1], last - 1);
    assert!(matches!(tape.reverse(&[[0.0; 0]]), Err(TapeError::Incomplete { .. })));
    let mut dump = Vec::new();
    tape.print(&mut dump).unwrap();
    assert!(String::from_utf8(dump).unwrap().lines().count() as u64 >= last);
    let exported = directory.path().join("exported");
    tape.export(&exported).unwrap();
    assert_eq!(fs::metadata(&exported).unwrap().len(), 32 * (last + 1));
}

#[test]
fn a_truncated_tape_is_recognised_at_any_length() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let mut index = recorder.input();
    for _ in 0..3 * Chunk::RECORDS {
        index = recorder.push(Record::binary64(Operation::Mul, [index, 0], [0.0, index as f64]));
    }
    recorder.output(index);
    let source = recorder.finish().directory().to_owned();
    for name in ["dg-input-indices", "dg-output-indices", "dg-tape"] {
        fs::copy(source.join(name), directory.path().join(name)).unwrap();
    }
    let tape = directory.path().join("dg-tape");
    let length = fs::metadata(&tape).unwrap().len();
    let lengths: Vec<u64> = (0..200).chain((200..length).step_by(997)).chain(length - 30..length).collect();
    for cut in lengths.into_iter().rev() {
        fs::File::options().write(true).open(&tape).unwrap().set_len(cut).unwrap();
        match Tape::open(directory.path()) {
            Err(TapeError::Incomplete { .. } | TapeError::Damaged { .. } | TapeError::NotATape { .. }) => {}
            other => panic!("{cut} of {length} bytes: {other:?}"),
        }
    }
}

#[test]
fn other_files_are_no_tapes() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["dg-input-indices", "dg-output-indices"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    let open = |content: &[u8]| {
        fs::write(directory.path().join("dg-tape"), content).unwrap();
        Tape::open(directory.path())
    };
    assert!(matches!(open(b""), Err(TapeError::NotATape { .. })));
    assert!(matches!(open(b"#!/bin/sh\nexit\n"), Err(TapeError::NotATape { .. })));
    assert!(matches!(open(&[0; 33]), Err(TapeError::Damaged { offset: 32, .. })));
    assert_eq!(open(&[0; 32]).unwrap().index_limit(), 1);
    let newer = [b"\x89dgtape\n".as_slice(), &99_u32.to_le_bytes(), &[0; 200]].concat();
    let error = open(&newer).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    // A block of the exchange format that refers to a later one.
    let mut forward = [0; 96];
    forward[32] = 2;
    let error = open(&forward).unwrap().validate().unwrap_err();
    assert!(matches!(error, TapeError::Order { index: 1, operand: 2, .. }), "{error}");
    open(&[0; 32]).unwrap();
    fs::write(directory.path().join("dg-input-indices"), "0\nx1\n").unwrap();
    let error = open(&[0; 32]).unwrap_err().to_string();
    assert!(error.contains("dg-input-indices, line 2: expected a decimal index, found \"x1\""), "{error}");
    fs::write(directory.path().join("dg-input-indices"), "0\n5\n").unwrap();
    let error = open(&[0; 32]).unwrap_err().to_string();
    assert!(error.contains("line 2: index 5 is not on the tape"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is changed in a tape: there is an error or the same derivatives, never a panic or another result.
    #[test]
    fn damage_never_changes_derivatives(
        tape in random_tape(20..400),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
    ) {
        let recorder = Recorder::new();
        tape.record(&recorder);
        tape.inputs().iter().for_each(|index| recorder.declare_input(*index));
        tape.outputs().iter().for_each(|index| recorder.declare_output(*index));
        let opened = recorder.finish();
        let bars = [vec![1.0; tape.outputs().len()]];
        let expected = opened.reverse(&bars).unwrap();
        let file = fs::File::options().read(true).write(true).open(opened.file("dg-tape")).unwrap();
        for (place, change) in changes {
            let offset = place.index(opened.bytes() as usize) as u64;
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ change], offset).unwrap();
        }
        let result = Tape::open(opened.directory()).and_then(|tape| tape.reverse(&bars));
        if let Ok(bars) = result {
            prop_assert_eq!(bars, expected);
        }
    }

    /// Export, import and export again give the same file; derivatives stay the same to the last bit.
    #[test]
    fn conversion_keeps_everything(tape in random_tape(1..300)) {
        let recorder = Recorder::new();
        let records = tape.record(&recorder);
        tape.inputs().iter().for_each(|index| recorder.declare_input(*index));
        tape.outputs().iter().for_each(|index| recorder.declare_output(*index));
        let opened = recorder.finish();
        let bars = [vec![1.5; tape.outputs().len()]];
        let expected = opened.reverse(&bars).unwrap();

        let directory = tempfile::tempdir().unwrap();
        opened.export(directory.path()).unwrap();
        let exported = fs::read(directory.path().join("dg-tape")).unwrap();
        let blocks: Vec<u8> = records.iter().flat_map(|record| record.partials().to_bytes()).collect();
        prop_assert_eq!(&exported, &blocks);
        let exchange = Tape::open(directory.path()).unwrap();
        prop_assert_eq!(exchange.format(), Format::Exchange);
        prop_assert_eq!(&exchange.reverse(&bars).unwrap(), &expected);
        prop_assert_eq!(exchange.statistics().unwrap().by_operands, opened.statistics().unwrap().by_operands);
        exchange.validate().unwrap();

        import(directory.path(), directory.path()).unwrap();
        let native = Tape::open(directory.path()).unwrap();
        prop_assert_eq!(native.format(), Format::Native);
        prop_assert_eq!(&native.reverse(&bars).unwrap(), &expected);
        native.validate().unwrap();
        native.export(directory.path()).unwrap();
        prop_assert_eq!(fs::read(directory.path().join("dg-tape")).unwrap(), exported);
        // Nothing is left of the work in between.
        prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}

#[test]
fn the_dump_is_readable() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let product = recorder.push(Record::binary64(Operation::Mul, [x, x], [3.0, 3.0]));
    recorder.push(Record::default());
    let single = recorder.push(Record::binary32(Operation::Div, [0, product], [1.0, 2.0]));
    recorder.declare_output(single);
    let mut dump = Vec::new();
    recorder.finish().print(&mut dump).unwrap();
    let dump = String::from_utf8(dump).unwrap();
    let words: Vec<Vec<&str>> = dump.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected: [&[&str]; 3] = [
        &["1", "input"],
        &["2", "mul", "d/d[1]", "=", "3.0", "d/d[1]", "=", "3.0"],
        &["4", "div/32", "d/d[2]", "=", "-0.25"],
    ];
    assert_eq!(words, expected);
}

#[test]
fn a_forked_process_continues_the_tape() {
    let recorder = Recorder::new();
    let x = recorder.input();
    let before = recorder.push(Record::binary64(Operation::Mul, [x, 0], [0.0, 3.0]));
    recorder.output(before);
    // SAFETY: the child does nothing but what a recorded program's child does, and ends with _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let own = std::process::id();
        let recorded = recorder.writer.fork_child(own).is_ok() && {
            let y = recorder.input();
            let product = recorder.push(Record::binary64(Operation::Mul, [before, y], [6.0, 5.0]));
            recorder.output(product);
            recorder.flush();
            recorder.writer.finish().is_ok()
        };
        // SAFETY: ends the child without running the destructors of the test harness.
        unsafe { libc::_exit(i32::from(!recorded)) };
    }
    assert!(pid > 0);
    // The parent goes on with the same indices for other things.
    let other = recorder.push(Record::binary64(Operation::Mul, [before, before], [6.0, 6.0]));
    recorder.output(other);
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    let directory = {
        let parent = recorder.finish();
        assert_eq!(parent.reverse(&[[0.0, 1.0]]).unwrap(), [[36.0]]);
        parent.validate().unwrap();
        parent.directory().to_owned()
    };
    let child = Tape::open_process(&directory, Process::Forked(pid as u32)).unwrap();
    child.validate().unwrap();
    assert_eq!(child.inputs().len(), 2);
    assert_eq!(child.outputs().len(), 2);
    // y3 = (3 x) y at x = 2, y = 5
    assert_eq!(child.reverse(&[[0.0, 1.0], [1.0, 0.0]]).unwrap(), [[15.0, 6.0], [3.0, 0.0]]);
    assert!(directory.join(format!("dg-output-indices.{pid}")).exists());
}
