//! Mapping of one ELF image.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{
    EM_386, EM_X86_64, ET_CORE, ET_DYN, ET_EXEC, ET_REL, FileHeader64, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_INTERP,
    PT_LOAD, PT_PHDR, ProgramHeader64,
};

use super::LoadError;
use crate::memory::{self, PAGE};

type Header = FileHeader64<LE>;
type Segment = ProgramHeader64<LE>;

/// A checked ELF header with its program headers.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    header: Header,
    segments: Vec<Segment>,
    size: u64,
}

/// Where an image was mapped.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Difference between run-time addresses and those in the file.
    pub bias: u64,
    /// Address of the first instruction.
    pub entry: u64,
    /// Address of the program headers in memory; 0 if they are not mapped.
    pub program_headers: u64,
    /// Number of program headers.
    pub program_header_count: u64,
    /// Everything from the first to the last segment.
    pub range: Range<u64>,
}

impl Image {
    /// Reads and checks the headers.
    pub fn read(file: File, path: &Path) -> Result<Image, LoadError> {
        let damaged = |detail: &str| LoadError::Damaged { path: path.to_owned(), detail: detail.to_owned() };
        let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
        let size = file.metadata().map_err(unreadable)?.len();
        let mut identification = [0u8; 20];
        file.read_exact_at(&mut identification, 0).map_err(|_| damaged("it ends within the ELF header"))?;
        check_machine(&identification, path)?;

        let mut bytes = vec![0u8; size_of::<Header>()];
        file.read_exact_at(&mut bytes, 0).map_err(|_| damaged("it ends within the ELF header"))?;
        let (header, _) = object::pod::from_bytes::<Header>(&bytes).map_err(|()| damaged("unaligned header"))?;
        let header = *header;
        match header.e_type.get(LE) {
            ET_EXEC | ET_DYN => {}
            ET_REL => {
                return Err(LoadError::NotAProgram { path: path.to_owned(), kind: "an object file" });
            }
            ET_CORE => {
                return Err(LoadError::NotAProgram { path: path.to_owned(), kind: "a core dump" });
            }
            _ => {
                return Err(LoadError::NotAProgram { path: path.to_owned(), kind: "of unknown type" });
            }
        }
        if usize::from(header.e_phentsize.get(LE)) != size_of::<Segment>() {
            return Err(damaged("program headers of unknown size"));
        }
        let count = usize::from(header.e_phnum.get(LE));
        let mut bytes = vec![0u8; count * size_of::<Segment>()];
        file.read_exact_at(&mut bytes, header.e_phoff.get(LE))
            .map_err(|_| damaged("it ends within the program headers"))?;
        let segments = object::pod::slice_from_all_bytes::<Segment>(&bytes).map_err(|()| damaged("program headers"))?;
        let image = Image { file, path: path.to_owned(), header, segments: segments.to_vec(), size };
        image.check_segments()?;
        Ok(image)
    }

    fn damaged(&self, detail: impl Into<String>) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), detail: detail.into() }
    }

    fn check_segments(&self) -> Result<(), LoadError> {
        let mut last_end = 0;
        for segment in self.loadable() {
            let (offset, in_file) = (segment.p_offset.get(LE), segment.p_filesz.get(LE));
            let (address, in_memory) = (segment.p_vaddr.get(LE), segment.p_memsz.get(LE));
            let file_end = offset.checked_add(in_file).ok_or_else(|| self.damaged("a segment's size overflows"))?;
            if file_end > self.size {
                return Err(self.damaged(format!("a segment reaches to byte {file_end}, the file has {}", self.size)));
            }
            if in_file > in_memory {
                return Err(self.damaged("a segment is larger in the file than in memory"));
            }
            if !address.wrapping_sub(offset).is_multiple_of(PAGE) {
                return Err(self.damaged("a segment is not aligned to pages"));
            }
            let end = address.checked_add(in_memory).filter(|&end| end <= memory::APP_END);
            let end =
                end.ok_or_else(|| LoadError::Mapping { path: self.path.clone(), address, error: libc::ENOMEM })?;
            if address < last_end {
                return Err(self.damaged("its segments are not in ascending order"));
            }
            last_end = end;
        }
        if last_end == 0 {
            return Err(self.damaged("it has nothing to load"));
        }
        Ok(())
    }

    fn loadable(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.p_type.get(LE) == PT_LOAD && segment.p_memsz.get(LE) != 0)
    }

    /// Path of the dynamic linker that the program names, if any.
    pub fn interpreter(&self) -> Result<Option<PathBuf>, LoadError> {
        use std::os::unix::ffi::OsStringExt;
        let Some(segment) = self.segments.iter().find(|segment| segment.p_type.get(LE) == PT_INTERP) else {
            return Ok(None);
        };
        let length = segment.p_filesz.get(LE);
        if !(2..=4096).contains(&length) {
            return Err(self.damaged("its interpreter's name has an impossible length"));
        }
        let mut name = vec![0u8; length as usize];
        self.file
            .read_exact_at(&mut name, segment.p_offset.get(LE))
            .map_err(|_| self.damaged("it ends within its interpreter's name"))?;
        let end =
            name.iter().position(|&byte| byte == 0).ok_or_else(|| self.damaged("its interpreter's name has no end"))?;
        name.truncate(end);
        Ok(Some(PathBuf::from(std::ffi::OsString::from_vec(name))))
    }

    /// Whether the program asks for an executable stack. Without the header it gets none: the kernel's default on amd64.
    pub fn wants_executable_stack(&self) -> bool {
        self.segments
            .iter()
            .find(|segment| segment.p_type.get(LE) == PT_GNU_STACK)
            .is_some_and(|segment| segment.p_flags.get(LE) & PF_X != 0)
    }

    /// Maps all segments.
    pub fn map(&self) -> Result<Placed, LoadError> {
        let failed = |address, error| LoadError::Mapping { path: self.path.clone(), address, error };
        let low = self.loadable().map(|segment| segment.p_vaddr.get(LE) & !(PAGE - 1)).min().unwrap_or(0);
        let high = self.loadable().map(|segment| segment.p_vaddr.get(LE) + segment.p_memsz.get(LE)).max().unwrap_or(0);
        let high = memory::pages_up(high).ok_or_else(|| failed(low, libc::ENOMEM))?;
        let bias = if self.header.e_type.get(LE) == ET_EXEC {
            0
        } else {
            self.reserve(high - low).map_err(|error| failed(low, error))?.wrapping_sub(low)
        };
        for segment in self.loadable() {
            self.map_segment(segment, bias)
                .map_err(|error| failed(segment.p_vaddr.get(LE).wrapping_add(bias), error))?;
        }
        Ok(Placed {
            bias,
            entry: self.header.e_entry.get(LE).wrapping_add(bias),
            program_headers: self.program_headers_address().map_or(0, |address| address.wrapping_add(bias)),
            program_header_count: self.segments.len() as u64,
            range: low.wrapping_add(bias)..high.wrapping_add(bias),
        })
    }

    /// Finds room for a position-independent image and takes it by a mapping of its file, as a dynamic linker does.
    fn reserve(&self, length: u64) -> Result<u64, i32> {
        let alignment = self.loadable().map(|segment| segment.p_align.get(LE)).max().unwrap_or(PAGE);
        let slack = if alignment > PAGE && alignment.is_power_of_two() { alignment } else { 0 };
        let flags = libc::MAP_PRIVATE;
        let length = length.checked_add(slack).ok_or(libc::ENOMEM)?;
        let start = memory::map(0, length, libc::PROT_NONE, flags, self.file.as_raw_fd(), 0)?;
        // What the segments do not cover is not theirs.
        memory::unmap(start, length)?;
        Ok(if slack == 0 { start } else { start.next_multiple_of(alignment) })
    }

    fn map_segment(&self, segment: &Segment, bias: u64) -> Result<(), i32> {
        let flags = segment.p_flags.get(LE);
        let mut protection = libc::PROT_NONE;
        for (flag, bit) in [(PF_R, libc::PROT_READ), (PF_W, libc::PROT_WRITE), (PF_X, libc::PROT_EXEC)] {
            if flags & flag != 0 {
                protection |= bit;
            }
        }
        let address = segment.p_vaddr.get(LE).wrapping_add(bias);
        let start = address & !(PAGE - 1);
        let file_end = address + segment.p_filesz.get(LE);
        let memory_end = address + segment.p_memsz.get(LE);
        let mapped_end = memory::pages_up(file_end).ok_or(libc::ENOMEM)?;
        let fixed = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let mut anonymous_start = start;
        if segment.p_filesz.get(LE) != 0 {
            let offset = segment.p_offset.get(LE) & !(PAGE - 1);
            memory::map(start, file_end - start, protection, fixed, self.file.as_raw_fd(), offset)?;
            anonymous_start = mapped_end;
            if memory_end > file_end && flags & PF_W != 0 {
                // The rest of the last page belongs to .bss.
                let tail = memory_end.min(mapped_end) - file_end;
                let zeros = vec![0u8; (mapped_end - file_end) as usize];
                debug_assert!(tail <= zeros.len() as u64);
                memory::user::write_bytes(file_end, &zeros).map_err(|_| libc::EFAULT)?;
            }
        }
        let end = memory::pages_up(memory_end).ok_or(libc::ENOMEM)?;
        if end > anonymous_start {
            memory::map(anonymous_start, end - anonymous_start, protection, fixed | libc::MAP_ANONYMOUS, -1, 0)?;
        }
        Ok(())
    }

    /// Address of the program headers as linked: from PT_PHDR, else from the segment that holds them.
    fn program_headers_address(&self) -> Option<u64> {
        if let Some(segment) = self.segments.iter().find(|segment| segment.p_type.get(LE) == PT_PHDR) {
            return Some(segment.p_vaddr.get(LE));
        }
        let offset = self.header.e_phoff.get(LE);
        self.loadable()
            .find(|segment| {
                let start = segment.p_offset.get(LE);
                (start..start + segment.p_filesz.get(LE)).contains(&offset)
            })
            .map(|segment| offset - segment.p_offset.get(LE) + segment.p_vaddr.get(LE))
    }
}

/// Checks class, byte order and machine, in the order that gives the most useful message.
fn check_machine(identification: &[u8; 20], path: &Path) -> Result<(), LoadError> {
    const LITTLE_ENDIAN: u8 = 1;
    const CLASS_32: u8 = 1;
    const CLASS_64: u8 = 2;
    let [class, order] = [identification[4], identification[5]];
    let pair = [identification[18], identification[19]];
    let machine = if order == LITTLE_ENDIAN { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
    match (machine, class) {
        (EM_X86_64, CLASS_64) if order == LITTLE_ENDIAN => Ok(()),
        (EM_386, _) | (EM_X86_64, CLASS_32) => Err(LoadError::ThirtyTwoBit(path.to_owned())),
        _ => Err(LoadError::ForeignArchitecture { path: path.to_owned(), architecture: architecture_name(machine) }),
    }
}

fn architecture_name(machine: u16) -> String {
    use object::elf;
    let known = [
        (elf::EM_AARCH64, "64-bit ARM"),
        (elf::EM_ARM, "32-bit ARM"),
        (elf::EM_RISCV, "RISC-V"),
        (elf::EM_PPC64, "64-bit PowerPC"),
        (elf::EM_PPC, "PowerPC"),
        (elf::EM_S390, "S/390"),
        (elf::EM_MIPS, "MIPS"),
        (elf::EM_LOONGARCH, "LoongArch"),
        (elf::EM_SPARCV9, "SPARC"),
        (elf::EM_BPF, "BPF"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == machine)
        .map_or_else(|| format!("ELF machine number {machine}"), |(_, name)| (*name).to_owned())
}
