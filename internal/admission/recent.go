package admission

import "sync"

// recent remembers a value for each of at most max keys: when the young half is full it becomes the old one, and the old
// one is forgotten. A key that is used stays. It is safe for concurrent use.
type recent[V any] struct {
	mu         sync.Mutex
	max        int
	young, old map[string]V
}

func newRecent[V any](maxKeys int) *recent[V] {
	return &recent[V]{max: maxKeys, young: map[string]V{}}
}

// get is the value of a key, if it is known.
func (r *recent[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.put(key, v)
	}
	return v, ok
}

// getOr is the value of a key; one that is not known gets the value that fresh returns.
func (r *recent[V]) getOr(key string, fresh func() V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v
	}
	v, ok := r.old[key]
	if !ok {
		v = fresh()
	}
	r.put(key, v)
	return v
}

// set replaces the value of a key.
func (r *recent[V]) set(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(key, v)
}

func (r *recent[V]) put(key string, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= max(r.max/2, 1) {
		r.young, r.old = map[string]V{}, r.young
	}
	r.young[key] = v
}
