package memory

import "iter"

// tree is an ordered map that never changes: put and del give a new tree that
// shares what did not change. So a snapshot costs nothing, and a rollback is
// forgetting the new tree. It is an AVL tree, which needs no randomness.
//
// A tree that is being written may have an owner: the nodes that were made for that owner, which
// no other tree shares, are changed where they are, instead of one more being made each time.
//
// The zero tree with a cmp is empty.
type tree[K, V any] struct {
	root  *node[K, V]
	cmp   func(a, b K) int
	owner *owner // nil: none
}

// owner is nothing but an address.
type owner struct{ _ byte }

type node[K, V any] struct {
	key         K
	value       V
	left, right *node[K, V]
	height      int
	owner       *owner
}

// own gives the tree an owner of its own, to whom no node belongs yet.
func (t *tree[K, V]) own() { t.owner = new(owner) }

// disown makes the tree one that never changes.
func (t *tree[K, V]) disown() { t.owner = nil }

// snapshot gives the root of the tree as it is now: what is done to the tree later does not
// change it.
func (t *tree[K, V]) snapshot() *node[K, V] {
	if t.owner != nil {
		t.own()
	}
	return t.root
}

func (t *tree[K, V]) get(key K) (V, bool) {
	n := t.root
	for n != nil {
		switch c := t.cmp(key, n.key); {
		case c == 0:
			return n.value, true
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	var none V
	return none, false
}

func (t *tree[K, V]) put(key K, value V) { t.root = t.insert(t.root, key, value) }

func (t *tree[K, V]) del(key K) { t.root = t.remove(t.root, key) }

// from yields what stands at key and after it, in order.
func (t *tree[K, V]) from(key K) iter.Seq2[K, V] {
	root := t.snapshot()
	return func(yield func(K, V) bool) { ascend(root, t.cmp, key, yield) }
}

// within yields what from yields, as long as the keys are in the range.
func (t *tree[K, V]) within(key K, in func(K) bool) iter.Seq2[K, V] {
	root := t.snapshot()
	return func(yield func(K, V) bool) {
		ascend(root, t.cmp, key, func(k K, v V) bool { return in(k) && yield(k, v) })
	}
}

// downFrom yields what stands at key and before it, in reverse order.
func (t *tree[K, V]) downFrom(key K) iter.Seq2[K, V] {
	root := t.snapshot()
	return func(yield func(K, V) bool) { descend(root, t.cmp, key, yield) }
}

// all yields everything in order.
func (t *tree[K, V]) all() iter.Seq2[K, V] {
	root := t.snapshot()
	return func(yield func(K, V) bool) { walk(root, yield) }
}

// values gives the first values, at most limit.
func (t *tree[K, V]) values(limit int) (found []V) {
	for _, v := range t.all() {
		if len(found) >= limit {
			break
		}
		found = append(found, v)
	}
	return found
}

func walk[K, V any](n *node[K, V], yield func(K, V) bool) bool {
	return n == nil || walk(n.left, yield) && yield(n.key, n.value) && walk(n.right, yield)
}

func ascend[K, V any](n *node[K, V], cmp func(a, b K) int, key K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if cmp(n.key, key) >= 0 {
		if !ascend(n.left, cmp, key, yield) || !yield(n.key, n.value) {
			return false
		}
	}
	return ascend(n.right, cmp, key, yield)
}

func descend[K, V any](n *node[K, V], cmp func(a, b K) int, key K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if cmp(n.key, key) <= 0 {
		if !descend(n.right, cmp, key, yield) || !yield(n.key, n.value) {
			return false
		}
	}
	return descend(n.left, cmp, key, yield)
}

func (t *tree[K, V]) insert(n *node[K, V], key K, value V) *node[K, V] {
	if n == nil {
		return &node[K, V]{key: key, value: value, height: 1, owner: t.owner}
	}
	switch c := t.cmp(key, n.key); {
	case c < 0:
		return t.join(t.insert(n.left, key, value), n, n.right)
	case c > 0:
		return t.join(n.left, n, t.insert(n.right, key, value))
	}
	if t.mine(n) {
		n.key, n.value = key, value
		return n
	}
	return &node[K, V]{key: key, value: value, left: n.left, right: n.right, height: n.height, owner: t.owner}
}

func (t *tree[K, V]) remove(n *node[K, V], key K) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := t.cmp(key, n.key); {
	case c < 0:
		return t.join(t.remove(n.left, key), n, n.right)
	case c > 0:
		return t.join(n.left, n, t.remove(n.right, key))
	}
	switch {
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	}
	next := n.right
	for next.left != nil {
		next = next.left
	}
	return t.join(n.left, next, t.remove(n.right, next.key))
}

// join makes a balanced tree of left, the entry of n, and right, whose heights
// differ by at most 2.
func (t *tree[K, V]) join(left, n, right *node[K, V]) *node[K, V] {
	switch {
	case height(left) > height(right)+1:
		if height(left.left) >= height(left.right) {
			return t.link(left.left, left, t.link(left.right, n, right))
		}
		m := left.right
		return t.link(t.link(left.left, left, m.left), m, t.link(m.right, n, right))
	case height(right) > height(left)+1:
		if height(right.right) >= height(right.left) {
			return t.link(t.link(left, n, right.left), right, right.right)
		}
		m := right.left
		return t.link(t.link(left, n, m.left), m, t.link(m.right, right, right.right))
	}
	return t.link(left, n, right)
}

func (t *tree[K, V]) link(left, n, right *node[K, V]) *node[K, V] {
	if t.mine(n) {
		n.left, n.right, n.height = left, right, 1+max(height(left), height(right))
		return n
	}
	return &node[K, V]{key: n.key, value: n.value, left: left, right: right, height: 1 + max(height(left), height(right)), owner: t.owner}
}

// mine reports whether no other tree shares the node.
func (t *tree[K, V]) mine(n *node[K, V]) bool { return t.owner != nil && n.owner == t.owner }

func height[K, V any](n *node[K, V]) int {
	if n == nil {
		return 0
	}
	return n.height
}
