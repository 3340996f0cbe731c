//! Keeps workers off the processor of the launching thread. Linux often wakes a thread on the processor of the thread
//! that wakes it, although another is idle. Both then share it for many launches, and each takes twice as long.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Where one worker has run.
pub(super) struct Place {
    /// The system's number of the thread; 0 before it has started.
    thread: AtomicI32,
    /// The processor of its last part, -1 if that is not known.
    processor: AtomicI32,
}

impl Place {
    pub(super) fn new() -> Place {
        Place { thread: AtomicI32::new(0), processor: AtomicI32::new(-1) }
    }

    /// Called by the worker when it starts.
    pub(super) fn started(&self) {
        self.thread.store(sys::thread(), Relaxed);
    }

    /// Called by the worker when it has done a part.
    pub(super) fn ran(&self) {
        self.processor.store(sys::processor(), Relaxed);
    }
}

/// Called by the launching thread: moves workers that last ran on its processor elsewhere.
pub(super) fn make_way(places: &[Place]) {
    let here = sys::processor();
    for place in places.iter().filter(|place| place.processor.load(Relaxed) == here) {
        let thread = place.thread.load(Relaxed);
        if here >= 0 && thread != 0 {
            sys::keep_away(thread, here);
            place.processor.store(-1, Relaxed);
        }
    }
}

#[cfg(target_os = "linux")]
mod sys {
    use std::mem::size_of;

    pub(super) fn thread() -> i32 {
        // SAFETY: asks for a number, and cannot fail.
        unsafe { libc::gettid() }
    }

    pub(super) fn processor() -> i32 {
        // SAFETY: asks for a number; -1 if there is none.
        unsafe { libc::sched_getcpu() }
    }

    /// Lets the thread run where this one may, except on `processor`. If that leaves no processor, nothing changes.
    pub(super) fn keep_away(thread: i32, processor: i32) {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        // SAFETY: the set is plain bits, for which zeros are a value; both calls are given its size, and `processor` is the
        // number of one of this machine's, which `CPU_CLR` compares with that size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, SIZE, &mut set) != 0 {
                return;
            }
            if (processor as usize) < 8 * SIZE {
                libc::CPU_CLR(processor as usize, &mut set);
            }
            if libc::CPU_COUNT(&set) > 0 {
                // that the thread may have ended, or may not be moved, is no matter
                libc::sched_setaffinity(thread, SIZE, &set);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    pub(super) fn thread() -> i32 {
        0
    }

    pub(super) fn processor() -> i32 {
        -1
    }

    pub(super) fn keep_away(_: i32, _: i32) {}
}
