//! A small memory of results, bounded by bytes: what was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The book-keeping of one entry, roughly.
const OVERHEAD: usize = 128;

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

struct Inner<V> {
    /// The whole source is the key: a hash alone could be made to collide.
    entries: HashMap<Arc<str>, Entry<V>>,
    by_use: BTreeMap<u64, Arc<str>>,
    bytes: usize,
    clock: u64,
}

/// Results by source text.
pub(super) struct Cache<V> {
    inner: Mutex<Inner<V>>,
    limit: usize,
}

impl<V: Clone> Cache<V> {
    /// An empty cache of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let inner = Inner { entries: HashMap::new(), by_use: BTreeMap::new(), bytes: 0, clock: 0 };
        Self { inner: Mutex::new(inner), limit }
    }

    /// What was put for `key`, now used most recently.
    pub(super) fn get(&self, key: &str) -> Option<V> {
        let inner = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.entries.get_mut(key)?;
        inner.clock += 1;
        if let Some(key) = inner.by_use.remove(&entry.used) {
            inner.by_use.insert(inner.clock, key);
        }
        entry.used = inner.clock;
        Some(entry.value.clone())
    }

    /// Keeps `value`, which weighs `bytes`, unless it alone would push out most of the others.
    pub(super) fn put(&self, key: &str, value: V, bytes: usize) {
        let bytes = bytes + key.len() + OVERHEAD;
        if bytes > self.limit / 2 {
            return;
        }
        let inner = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.entries.contains_key(key) {
            return;
        }
        while inner.bytes + bytes > self.limit {
            let Some((_, oldest)) = inner.by_use.pop_first() else {
                break;
            };
            if let Some(entry) = inner.entries.remove(&oldest) {
                inner.bytes -= entry.bytes;
            }
        }
        inner.clock += 1;
        let key: Arc<str> = Arc::from(key);
        inner.by_use.insert(inner.clock, Arc::clone(&key));
        inner.entries.insert(key, Entry { value, bytes, used: inner.clock });
        inner.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first_and_the_bound_holds() {
        let cache = Cache::new(1_000);
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            cache.put(key, value, 150);
        }
        assert_eq!(cache.get("a"), Some(1));
        cache.put("d", 4, 150);
        assert_eq!((cache.get("a"), cache.get("b"), cache.get("c"), cache.get("d")), (Some(1), None, Some(3), Some(4)));
        cache.put("too big", 5, 900);
        assert_eq!(cache.get("too big"), None);
        for n in 0..100 {
            cache.put(&format!("key {n}"), n, 10 * usize::try_from(n).unwrap());
        }
        let inner = cache.inner.lock().unwrap();
        assert!(inner.bytes <= 1_000);
        assert_eq!(inner.entries.len(), inner.by_use.len());
        assert_eq!(inner.bytes, inner.entries.values().map(|entry| entry.bytes).sum::<usize>());
    }
}
