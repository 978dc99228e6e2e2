//! Atomics with a [`point`] before each operation.

use super::point;
use std::sync::atomic as inner;
pub use std::sync::atomic::Ordering;

/// A fence. Threads run one at a time: nothing is out of order.
pub fn fence(order: Ordering) {
    inner::fence(order);
}

macro_rules! atomics {
    ($($name:ident of $value:ty),*) => {$(
        /// An atomic of the standard library.
        #[derive(Default, Debug)]
        pub struct $name(inner::$name);

        impl $name {
            /// One with a value.
            pub const fn new(value: $value) -> $name {
                $name(inner::$name::new(value))
            }

            /// Reads.
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// Writes.
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Writes; what was there before.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// Writes where something is still there; what was there.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Changes what is there, unless the function gives nothing.
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(set, fetch, change)
            }
        }
    )*};
}

macro_rules! integers {
    ($($name:ident of $value:ty),*) => {
        atomics!($($name of $value),*);
        $(impl $name {
            /// Adds; what was there before.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_add(value, order)
            }

            /// Subtracts; what was there before.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_sub(value, order)
            }

            /// Raises to a value; what was there before.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_max(value, order)
            }
        })*
    };
}

atomics!(AtomicBool of bool);
integers!(
    AtomicU8 of u8,
    AtomicU16 of u16,
    AtomicU32 of u32,
    AtomicU64 of u64,
    AtomicUsize of usize,
    AtomicI64 of i64
);

/// An atomic pointer of the standard library.
#[derive(Debug)]
pub struct AtomicPtr<T>(inner::AtomicPtr<T>);

impl<T> Default for AtomicPtr<T> {
    fn default() -> AtomicPtr<T> {
        AtomicPtr::new(std::ptr::null_mut())
    }
}

impl<T> AtomicPtr<T> {
    /// One that leads somewhere.
    pub const fn new(to: *mut T) -> AtomicPtr<T> {
        AtomicPtr(inner::AtomicPtr::new(to))
    }

    /// Reads.
    pub fn load(&self, order: Ordering) -> *mut T {
        point();
        self.0.load(order)
    }

    /// Writes.
    pub fn store(&self, to: *mut T, order: Ordering) {
        point();
        self.0.store(to, order);
    }

    /// Writes; returns the pointer that was there before.
    pub fn swap(&self, to: *mut T, order: Ordering) -> *mut T {
        point();
        self.0.swap(to, order)
    }

    /// The value, by exclusive access.
    pub fn get_mut(&mut self) -> &mut *mut T {
        self.0.get_mut()
    }
}
