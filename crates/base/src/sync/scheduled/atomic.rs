//! Atomics with a [`scheduling_point`] before each operation.

use super::scheduling_point;
use std::sync::atomic as inner;
pub use std::sync::atomic::Ordering;

/// A fence. Without effect on the model: threads run one at a time, in program order.
pub fn fence(order: Ordering) {
    inner::fence(order);
}

macro_rules! atomics {
    ($($name:ident of $value:ty),*) => {$(
        /// An atomic of the standard library.
        #[derive(Default, Debug)]
        pub struct $name(inner::$name);

        impl $name {
            /// Creates an atomic with a value.
            pub const fn new(value: $value) -> $name {
                $name(inner::$name::new(value))
            }

            /// Reads.
            pub fn load(&self, order: Ordering) -> $value {
                scheduling_point();
                self.0.load(order)
            }

            /// Writes.
            pub fn store(&self, value: $value, order: Ordering) {
                scheduling_point();
                self.0.store(value, order);
            }

            /// Stores a value and returns the previous one.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                scheduling_point();
                self.0.swap(value, order)
            }

            /// Stores `new` if the value is `current`. Returns the previous value.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                scheduling_point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Applies `change` to the value unless it returns `None`. Returns the previous value.
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                scheduling_point();
                self.0.fetch_update(set, fetch, change)
            }
        }
    )*};
}

macro_rules! integers {
    ($($name:ident of $value:ty),*) => {
        atomics!($($name of $value),*);
        $(impl $name {
            /// Adds to the value and returns the previous one.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                scheduling_point();
                self.0.fetch_add(value, order)
            }

            /// Subtracts from the value and returns the previous one.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                scheduling_point();
                self.0.fetch_sub(value, order)
            }

            /// Stores the maximum of both values and returns the previous one.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                scheduling_point();
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

/// An atomic pointer with scheduling points.
#[derive(Debug)]
pub struct AtomicPtr<T>(inner::AtomicPtr<T>);

impl<T> Default for AtomicPtr<T> {
    fn default() -> AtomicPtr<T> {
        AtomicPtr::new(std::ptr::null_mut())
    }
}

impl<T> AtomicPtr<T> {
    /// Creates an atomic pointer.
    pub const fn new(to: *mut T) -> AtomicPtr<T> {
        AtomicPtr(inner::AtomicPtr::new(to))
    }

    /// Reads.
    pub fn load(&self, order: Ordering) -> *mut T {
        scheduling_point();
        self.0.load(order)
    }

    /// Writes.
    pub fn store(&self, to: *mut T, order: Ordering) {
        scheduling_point();
        self.0.store(to, order);
    }

    /// Stores a pointer and returns the previous one.
    pub fn swap(&self, to: *mut T, order: Ordering) -> *mut T {
        scheduling_point();
        self.0.swap(to, order)
    }

    /// Mutable access to the pointer; needs no scheduling point.
    pub fn get_mut(&mut self) -> &mut *mut T {
        self.0.get_mut()
    }
}
