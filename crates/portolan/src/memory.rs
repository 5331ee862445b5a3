//! What the allocator is told before anything else happens.

/// Buffers of this size and more are mapped one by one, and unmapped when they are freed. Left to itself, the GNU
/// allocator takes buffers of up to 32 MB from heaps that it keeps for each thread, once it has seen one freed. The filters of
/// tables, made by one thread and freed by another, then leave holes that nothing fits into.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 1 << 20;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(
    unsafe_code,
    reason = "a call into the C library that takes two numbers. It is made by the only thread there is, before \
              anything else; if it fails, more memory is used."
)]
pub(crate) fn give_large_buffers_back() {
    // SAFETY: see the reason above.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_buffers_back() {}
