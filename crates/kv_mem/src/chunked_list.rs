//! A list whose elements stay where they are once it is large.
//!
//! The lists of a transaction with a million rows are as large as the rows. A vector that grows by doubling
//! moves all elements to fresh memory each time, and the kernel clears that memory: it was a third of the
//! time of a large LOAD DATA. This list grows by chunks of [`CHUNK`] elements, and only the first chunk
//! grows by doubling. A single element is stored inline.
//!
//! Invariants: all chunks but the last are full, and no chunk after the first is empty.

use smallvec::SmallVec;

/// Number of elements in a chunk.
const CHUNK: usize = 4096;

pub(crate) struct ChunkedList<T> {
    first: SmallVec<[T; 1]>,
    others: Vec<Vec<T>>,
}

impl<T> Default for ChunkedList<T> {
    fn default() -> ChunkedList<T> {
        ChunkedList {
            first: SmallVec::new(),
            others: Vec::new(),
        }
    }
}

impl<T> ChunkedList<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self.others.last() {
            None => self.first.len(),
            Some(last) => CHUNK * self.others.len() + last.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Reserves space for further elements in the first chunk; larger lists allocate chunk by chunk.
    pub(crate) fn reserve(&mut self, elements: usize) {
        let room = CHUNK.saturating_sub(self.first.len());
        self.first.reserve(elements.min(room));
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match (at / CHUNK).checked_sub(1) {
            None => self.first.get(at),
            Some(chunk) => self.others.get(chunk)?.get(at % CHUNK),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match (at / CHUNK).checked_sub(1) {
            None => self.first.get_mut(at),
            Some(chunk) => self.others.get_mut(chunk)?.get_mut(at % CHUNK),
        }
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.others
            .last()
            .map_or(self.first.last(), |last| last.last())
    }

    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        if self.first.len() < CHUNK {
            self.first.push(element);
        } else {
            self.push_behind_first(element);
        }
    }

    fn push_behind_first(&mut self, element: T) {
        if let Some(last) = self.others.last_mut().filter(|last| last.len() < CHUNK) {
            last.push(element);
            return;
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        chunk.push(element);
        self.others.push(chunk);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let Some(last) = self.others.last_mut() else {
            return self.first.pop();
        };
        let element = last.pop();
        if last.is_empty() {
            self.others.pop();
        }
        element
    }

    /// The first chunk: all elements, if they are few.
    #[inline]
    pub(crate) fn first_chunk(&self) -> &[T] {
        &self.first
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.first.iter().chain(self.others.iter().flatten())
    }

    /// Removes all elements, and frees each chunk when its elements have been taken.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let others = std::mem::take(&mut self.others);
        self.first.drain(..).chain(others.into_iter().flatten())
    }

    /// Swaps two elements; no effect if one does not exist.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        let (low, high) = (a.min(b), a.max(b));
        let (low_chunk, high_chunk) = (low / CHUNK, high / CHUNK);
        if high >= self.len() {
            return;
        }
        if low_chunk == high_chunk {
            let chunk = match low_chunk.checked_sub(1) {
                None => Some(self.first.as_mut_slice()),
                Some(at) => self.others.get_mut(at).map(Vec::as_mut_slice),
            };
            if let Some(chunk) = chunk {
                chunk.swap(low % CHUNK, high % CHUNK);
            }
            return;
        }
        // `high_chunk` is at least 1, and is the first chunk of the second part.
        let (before, behind) = self.others.split_at_mut(high_chunk - 1);
        let low_slice = match low_chunk.checked_sub(1) {
            None => Some(self.first.as_mut_slice()),
            Some(at) => before.get_mut(at).map(Vec::as_mut_slice),
        };
        let low = low_slice.and_then(|chunk| chunk.get_mut(low % CHUNK));
        let high = behind.first_mut().and_then(|c| c.get_mut(high % CHUNK));
        if let (Some(low), Some(high)) = (low, high) {
            std::mem::swap(low, high);
        }
    }

    /// Removes the element at a position, which the last one takes. `None` if it does not exist.
    pub(crate) fn swap_remove(&mut self, at: usize) -> Option<T> {
        let last = self.len().checked_sub(1).filter(|last| at <= *last)?;
        self.swap(at, last);
        self.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a vector, around the ends of chunks.
    #[test]
    fn a_list_agrees_with_a_vector() {
        let mut rng = fastrand::Rng::with_seed(5);
        for len in [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let mut list = ChunkedList::default();
            let mut vector: Vec<usize> = Vec::new();
            for n in 0..len {
                list.push(n);
                vector.push(n);
            }
            for _ in 0..len.min(1000) {
                let (a, b) = (rng.usize(0..len), rng.usize(0..len));
                list.swap(a, b);
                vector.swap(a, b);
            }
            for at in [0, len / 2, len.saturating_sub(1)] {
                let removed = (at < vector.len()).then(|| vector.swap_remove(at));
                assert_eq!(list.swap_remove(at), removed);
            }
            list.swap(0, len);
            assert!(list.iter().eq(&vector) && list.iter().rev().eq(vector.iter().rev()));
            assert_eq!(
                (list.len(), list.is_empty()),
                (vector.len(), vector.is_empty())
            );
            assert!(list.get(len).is_none() && list.get_mut(len).is_none());
            let middle = vector.len() / 2;
            assert_eq!(list.get(middle), vector.get(middle));
            assert_eq!(list.last(), vector.last());
            assert_eq!(list.pop(), vector.pop());
            assert_eq!(list.first_chunk(), &vector[..vector.len().min(CHUNK)]);
            assert!(list.drain().eq(vector) && list.is_empty());
        }
    }
}
