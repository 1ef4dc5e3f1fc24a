//! `DECLARE_ARRAY`: variables that lie side by side become inputs or outputs by one request.

use derivgrind_engine::memory::{APP_END, user};
use derivgrind_engine::report;

use crate::x87::Extended;

/// Elements that are handled at a time.
const BLOCK: usize = 512;
/// Size of the largest element.
const LARGEST: usize = 16;

/// What is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Each element gets a new index.
    Inputs,
    /// A copy of each element is an output.
    Outputs,
}

/// The array that a request names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// What its elements are.
    pub role: Role,
    /// Address of the first element.
    address: u64,
    /// Number of elements.
    count: u64,
    /// Bytes from one element to the next: 4, 8, or 10, 12, 16 for x87 numbers.
    pub size: u64,
}

/// Elements that follow one another, with their bytes.
pub(crate) struct Block<'a> {
    /// Address of the first one.
    pub address: u64,
    /// Bytes of an element.
    pub size: u64,
    bytes: &'a [u8],
}

impl Array {
    /// The array of `DECLARE_ARRAY(0 for inputs or 1 for outputs, address, number of elements, size of an element)`. One that cannot be is
    /// reported and ignored.
    pub(crate) fn of_request(arguments: &[u64; 6]) -> Option<Array> {
        let [_, role, address, count, size, _] = *arguments;
        let role = match role {
            0 => Role::Inputs,
            1 => Role::Outputs,
            other => {
                report(&format!("client request DECLARE_ARRAY: no index file {other}; 0 is inputs, 1 outputs"));
                return None;
            }
        };
        if !matches!(size, 4 | 8 | 10 | 12 | 16) {
            report(&format!(
                "client request DECLARE_ARRAY: a real variable has 4, 8, 10, 12 or 16 bytes, not {size}; the request is ignored"
            ));
            return None;
        }
        let end = count.checked_mul(size).and_then(|bytes| address.checked_add(bytes));
        if end.is_none_or(|end| end > APP_END) {
            report(&format!(
                "client request DECLARE_ARRAY: {count} elements of {size} bytes at {address:#x} do not fit into memory; the request is ignored"
            ));
            return None;
        }
        Some(Array { role, address, count, size })
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Hands the elements over in blocks, in order.
    ///
    /// # Errors
    /// At the first element that is not accessible. Those before it have been handed over.
    pub(crate) fn blocks(
        &self,
        mut visit: impl FnMut(Block<'_>) -> Result<(), user::Fault>,
    ) -> Result<(), user::Fault> {
        let mut bytes = [0; BLOCK * LARGEST];
        let mut done = 0;
        while done < self.count {
            let count = (self.count - done).min(BLOCK as u64);
            let bytes = &mut bytes[..(count * self.size) as usize];
            let address = self.address + done * self.size;
            user::read_bytes(address, bytes)?;
            visit(Block { address, size: self.size, bytes })?;
            done += count;
        }
        Ok(())
    }
}

impl Block<'_> {
    /// Address and value of each element.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (u64, f64)> {
        let addresses = (self.address..).step_by(self.size as usize);
        addresses.zip(self.bytes.chunks_exact(self.size as usize).map(value))
    }
}

/// The value of a real number, told by its size, as binary64.
fn value(bytes: &[u8]) -> f64 {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|k| bytes.get(k).copied().unwrap_or(0))
    }
    match bytes.len() {
        4 => f64::from(f32::from_le_bytes(first(bytes))),
        8 => f64::from_le_bytes(first(bytes)),
        _ => Extended::from_bytes(first(bytes)).to_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_size() {
        assert_eq!(value(&1.5_f32.to_le_bytes()), 1.5);
        assert_eq!(value(&(-0.1_f64).to_le_bytes()), -0.1);
        // -6.25 = -1.5625 * 2^2
        let mut extended = [0; 16];
        extended[..8].copy_from_slice(&0xc800_0000_0000_0000_u64.to_le_bytes());
        extended[8..10].copy_from_slice(&0xc001_u16.to_le_bytes());
        for size in [10, 12, 16] {
            assert_eq!(value(&extended[..size]), -6.25);
        }
    }

    #[test]
    fn what_cannot_be_an_array_is_refused() {
        let array = |role, address, count, size| Array::of_request(&[0, role, address, count, size, 0]).is_some();
        assert!(array(0, 0x1000, 3, 8) && array(1, 0x1000, 0, 4));
        assert!(!array(2, 0x1000, 3, 8) && !array(0, 0x1000, 3, 5));
        assert!(!array(0, 0x1000, u64::MAX / 4, 8) && !array(0, 0x1000, 1 << 41, 8) && !array(0, u64::MAX - 8, 2, 8));
    }
}
