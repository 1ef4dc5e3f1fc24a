//! What these files contain.

use std::fmt::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use super::Subject;
use crate::memory::{self, APP_END, Kind, Mapping, user};

/// The content of a file; `None` if it cannot be made up and the host's has to do.
pub(super) fn of(subject: Subject) -> Option<Vec<u8>> {
    let program = crate::loader::program();
    match subject {
        Subject::Program => None,
        Subject::Maps => Some(maps()),
        Subject::DetailedMaps => Some(detailed_maps(&std::fs::read("/proc/self/smaps").ok()?)),
        Subject::CommandLine => strings(&program?.arguments),
        Subject::Environment => strings(&program?.environment),
        Subject::AuxiliaryVector => Some(
            program?.auxiliary.iter().flat_map(|&(kind, value)| [kind, value]).flat_map(u64::to_le_bytes).collect(),
        ),
    }
}

/// Bytes of the initial stack: the program may have changed them, as it does to change its title.
fn strings(range: &Range<u64>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    user::read_bytes(range.start, &mut bytes).ok()?;
    Some(bytes)
}

fn maps() -> Vec<u8> {
    let heap = memory::heap();
    let mut text = Vec::new();
    for mapping in memory::mappings() {
        text.extend_from_slice(&line(&mapping, &heap));
    }
    text
}

/// One line as the kernel writes it (`show_map_vma`).
fn line(mapping: &Mapping, heap: &Range<u64>) -> Vec<u8> {
    /// Column of the name.
    const NAME: usize = 73;
    let flag = |set: bool, letter: char| if set { letter } else { '-' };
    let (offset, device, inode) = match &mapping.kind {
        Kind::File { origin, offset } => (*offset, origin.device, origin.inode),
        _ => (0, 0, 0),
    };
    let protection = mapping.protection;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{:08x}-{:08x} {}{}{}{} {offset:08x} {:02x}:{:02x} {inode} ",
        mapping.start,
        mapping.end,
        flag(protection.read, 'r'),
        flag(protection.write, 'w'),
        flag(protection.execute, 'x'),
        if mapping.shared { 's' } else { 'p' },
        libc::major(device),
        libc::minor(device),
    );
    let mut line = text.into_bytes();
    let name: &[u8] = match &mapping.kind {
        Kind::File { origin, .. } => origin.path.as_os_str().as_bytes(),
        Kind::Stack => b"[stack]",
        Kind::Brk if mapping.start < heap.end => b"[heap]",
        Kind::Brk | Kind::Anonymous => b"",
        Kind::SharedSegment { .. } => b"/SYSV00000000",
    };
    if !name.is_empty() {
        line.resize(line.len().max(NAME), b' ');
        line.extend_from_slice(name);
    }
    line.push(b'\n');
    line
}

/// The part of the host's `smaps` that concerns the application, with its own permissions.
fn detailed_maps(host: &[u8]) -> Vec<u8> {
    let heap = memory::heap();
    let mut text = Vec::new();
    let mut wanted = false;
    for host_line in host.split_inclusive(|&byte| byte == b'\n') {
        let range = std::str::from_utf8(host_line).ok().and_then(parse_range);
        let Some(range) = range else {
            if wanted {
                text.extend_from_slice(host_line);
            }
            continue;
        };
        wanted = range.end <= APP_END;
        if let (true, Some(mapping)) = (wanted, memory::mapping_at(range.start)) {
            let part = Mapping { start: range.start, end: range.end, ..mapping };
            text.extend_from_slice(&line(&part, &heap));
        }
    }
    text
}

/// The addresses at the start of a mapping's first line.
fn parse_range(line: &str) -> Option<Range<u64>> {
    let (first, last) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(first, 16).ok()?..u64::from_str_radix(last, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::memory::{FileOrigin, Protection};

    #[test]
    fn a_line_looks_like_the_kernels() {
        let origin =
            FileOrigin { path: Path::new("/usr/bin/true").into(), device: libc::makedev(0xfe, 0), inode: 4711 };
        let kind = Kind::File { origin: Arc::new(origin), offset: 0x2000 };
        let access = Protection { read: true, write: false, execute: true };
        let mapping = Mapping::private(0x2000_0000..0x2000_4000, access, kind);
        let expected = "20000000-20004000 r-xp 00002000 fe:00 4711                               /usr/bin/true\n";
        assert_eq!(String::from_utf8(line(&mapping, &(0..0))).unwrap(), expected);
        let anonymous = Mapping::private(0x1000..0x2000, Protection::default(), Kind::Anonymous);
        assert_eq!(line(&anonymous, &(0..0)), b"00001000-00002000 ---p 00000000 00:00 0 \n");
    }

    #[test]
    fn our_own_lines_agree_with_the_hosts_format() {
        let host = std::fs::read_to_string("/proc/self/maps").unwrap();
        let named = host.lines().find(|line| line.contains('/')).unwrap();
        assert_eq!(named.find('/'), Some(73));
    }
}
