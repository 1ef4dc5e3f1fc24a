//! Alternate signal stacks: the application's, and the host's own.

use crate::syscall::raw::syscall;

/// `stack_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AltStack {
    /// Lowest address.
    pub start: u64,
    /// `SS_` flags; the padding behind them is part of the field.
    pub flags: u64,
    /// Bytes.
    pub size: u64,
}

// SAFETY: three integers.
unsafe impl crate::memory::user::Plain for AltStack {}

/// Smallest size that `sigaltstack` accepts (`MINSIGSTKSZ`).
const LEAST: u64 = 2048;
const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const SS_AUTODISARM: u32 = 1 << 31;

impl Default for AltStack {
    fn default() -> Self {
        AltStack { start: 0, flags: SS_DISABLE.into(), size: 0 }
    }
}

impl AltStack {
    fn flags(&self) -> u32 {
        self.flags as u32
    }

    fn enabled(&self) -> bool {
        self.flags() & SS_DISABLE == 0 && self.size != 0
    }

    /// Whether a stack pointer lies on it. One that disarms itself is never considered to be in use.
    pub fn holds(&self, stack_pointer: u64) -> bool {
        self.flags() & SS_AUTODISARM == 0 && self.within(stack_pointer)
    }

    fn within(&self, stack_pointer: u64) -> bool {
        self.enabled() && stack_pointer > self.start && stack_pointer - self.start <= self.size
    }

    /// Where a handler's frame begins if it is to run here: `None` if the stack is disabled or in use already.
    pub fn entry(&self, stack_pointer: u64) -> Option<u64> {
        (self.enabled() && !self.holds(stack_pointer)).then(|| self.start + self.size)
    }

    /// Whether a frame at `frame`, entered from the stack's end, has overflown it.
    pub fn overflown_by(&self, frame: u64) -> bool {
        !self.within(frame)
    }

    /// Whether it has to be disabled while a handler runs on it.
    pub fn disarms_itself(&self) -> bool {
        self.flags() & SS_AUTODISARM != 0
    }

    /// What `sigaltstack` reports.
    pub fn reported(&self, stack_pointer: u64) -> AltStack {
        let state = if self.flags() & SS_DISABLE != 0 {
            SS_DISABLE
        } else if self.holds(stack_pointer) {
            SS_ONSTACK
        } else {
            0
        };
        AltStack { flags: (state | self.flags() & SS_AUTODISARM).into(), ..*self }
    }

    /// Replaces the settings, as `sigaltstack` does.
    pub fn replaced(&self, new: AltStack, stack_pointer: u64) -> Result<AltStack, i32> {
        if self.holds(stack_pointer) {
            return Err(libc::EPERM);
        }
        let mode = new.flags() & !SS_AUTODISARM;
        if mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE {
            return Err(libc::EINVAL);
        }
        if mode == SS_DISABLE {
            return Ok(AltStack { start: 0, flags: new.flags().into(), size: 0 });
        }
        if new.size < LEAST {
            return Err(libc::ENOMEM);
        }
        Ok(AltStack { flags: (new.flags() & SS_AUTODISARM).into(), ..new })
    }
}

/// Bytes of the stack on which host handlers run: the processor's state with AVX-512 takes 3 KiB of it.
const HOST_STACK_BYTES: usize = 64 << 10;

/// A stack for the host's handlers of one thread. The stack pointer of cached code is the application's, which may be no usable stack.
pub(crate) struct HostStack(*mut libc::c_void);

impl HostStack {
    /// Makes one and registers it for the calling thread.
    pub(crate) fn install() -> Result<HostStack, i32> {
        // SAFETY: a fresh anonymous mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                HOST_STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(libc::ENOMEM);
        }
        set_host(AltStack { start: memory as u64, flags: 0, size: HOST_STACK_BYTES as u64 });
        Ok(HostStack(memory))
    }
}

impl Drop for HostStack {
    fn drop(&mut self) {
        set_host(AltStack::default());
        // SAFETY: the mapping made by `install`, which the kernel no longer uses.
        unsafe { libc::munmap(self.0, HOST_STACK_BYTES) };
    }
}

fn set_host(stack: AltStack) {
    // SAFETY: `AltStack` has the kernel's layout; the memory belongs to this thread.
    unsafe { syscall(libc::SYS_sigaltstack, [&raw const stack as u64, 0, 0, 0, 0, 0]) };
}
