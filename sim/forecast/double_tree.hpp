#pragma once
// NCCL's two binary trees between nodes: every node is inner in one and a leaf in the other. Odd
// numbers of nodes shift the second, even ones mirror it.
//
//   4 nodes, first: 0 > 2 > {1, 3}, mirrored: 3 > 1 > {2, 0}
//
// Source: NCCL 2.28.9, src/graph/trees.cc.

namespace stepcast {

// The parent of node k of n, -1 for the root.
int tree_parent(int k, int n, bool second);

}  // namespace stepcast
