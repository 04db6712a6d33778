package seal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

var factory = compact.RangeFactory{Hash: hashChildren}

// hashChildren is that of rfc6962.DefaultHasher with less memory.
func hashChildren(left, right []byte) []byte {
	var room [1 + 2*sha256.Size]byte
	sum := sha256.Sum256(append(append(append(room[:0], rfc6962.RFC6962NodeHashPrefix), left...), right...))
	return sum[:]
}

// Tree is a tree that grows. It has the hashes of its full subtrees only, one for each bit of its size.
type Tree struct {
	grown *compact.Range
	seen  compact.VisitFn // hears of each full subtree. Optional.
}

// NewTree returns an empty tree.
func NewTree() *Tree { return &Tree{grown: factory.NewEmptyRange(0)} }

// ResumeTree returns the tree of a size whose nodes were stored.
func ResumeTree(size uint64, nodes []byte) (*Tree, error) {
	if len(nodes) != bits.OnesCount64(size)*sha256.Size {
		return nil, fmt.Errorf("%d bytes are not the nodes of a tree of %d events", len(nodes), size)
	}
	var hashes [][]byte
	for ; len(nodes) > 0; nodes = nodes[sha256.Size:] {
		hashes = append(hashes, nodes[:sha256.Size:sha256.Size])
	}
	grown, err := factory.NewRange(0, size, hashes)
	return &Tree{grown: grown}, err
}

// Append adds a leaf.
func (t *Tree) Append(leaf Hash) {
	id := compact.NewNodeID(0, t.grown.End())
	if t.seen != nil {
		t.seen(id, leaf[:])
	}
	_ = t.grown.Append(leaf[:], t.seen) // fails only between trees that don't meet
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.grown.End() }

// Root returns the root hash.
func (t *Tree) Root() Hash {
	root, err := t.grown.GetRootHash(nil)
	if err != nil || root == nil {
		return Hash(rfc6962.DefaultHasher.EmptyRoot())
	}
	return Hash(root)
}

// Nodes returns what ResumeTree takes.
func (t *Tree) Nodes() []byte {
	var out []byte
	for _, hash := range t.grown.Hashes() {
		out = append(out, hash...)
	}
	return out
}

// Prover proves that leaves are in the tree of a size. It gets their indexes first, and then all leaves.
type Prover struct {
	size   uint64
	tree   *Tree
	wanted map[compact.NodeID][]byte
}

// NewProver returns a prover that proves leaves, and that the trees of earlier sizes grew into that of size.
func NewProver(size uint64, leaves, earlier []uint64) (*Prover, error) {
	p := &Prover{size: size, tree: NewTree(), wanted: map[compact.NodeID][]byte{}}
	p.tree.seen = func(id compact.NodeID, hash []byte) {
		if _, wanted := p.wanted[id]; wanted {
			p.wanted[id] = append([]byte(nil), hash...)
		}
	}
	for _, index := range leaves {
		if err := p.want(proof.Inclusion(index, size)); err != nil {
			return nil, err
		}
	}
	for _, before := range earlier {
		if err := p.want(proof.Consistency(before, size)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Prover) want(nodes proof.Nodes, err error) error {
	for _, id := range nodes.IDs {
		p.wanted[id] = nil
	}
	return err
}

// Append adds the next leaf.
func (p *Prover) Append(leaf Hash) { p.tree.Append(leaf) }

// Root returns the root of what was given.
func (p *Prover) Root() Hash { return p.tree.Root() }

// Inclusion proves a leaf. All leaves must have been given.
func (p *Prover) Inclusion(index uint64) ([][]byte, error) {
	return p.prove(proof.Inclusion(index, p.size))
}

// Consistency proves that the tree of an earlier size is the beginning of this one.
func (p *Prover) Consistency(earlier uint64) ([][]byte, error) {
	return p.prove(proof.Consistency(earlier, p.size))
}

var errNotGiven = errors.New("a node of the tree is missing: not all leaves were given")

func (p *Prover) prove(nodes proof.Nodes, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		if hashes[i] = p.wanted[id]; hashes[i] == nil {
			return nil, errNotGiven
		}
	}
	return nodes.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
}

// Included checks the proof that a leaf is in the tree of a head.
func (h *Head) Included(index uint64, leaf Hash, path [][]byte) error {
	return proof.VerifyInclusion(rfc6962.DefaultHasher, index, h.Size, leaf[:], path, h.Root)
}

// Continues checks the proof that the tree of an earlier head is the beginning of this one's.
func (h *Head) Continues(earlier *Head, path [][]byte) error {
	return proof.VerifyConsistency(rfc6962.DefaultHasher, earlier.Size, h.Size, path, earlier.Root, h.Root)
}
