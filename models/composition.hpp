#pragma once
// A transformer put together from parts, for the families that no single set of switches describes:
// latent attention, experts beside dense blocks, norms in four places, windows in every other
// block, state-space layers, an encoder before the decoder. Everything follows from lists of
// modules (models/modules.hpp):
//
//   kinds     what a block can be: "dense", "moe"; its modules and sizes
//   segments  the layers in the order in which they run: embedding, blocks (which kind each), norm,
//             head; an encoder-decoder has stem or embedding, blocks and norm twice
//
// Example, DeepSeek-V3: kinds dense and moe; segments embedding, 3 dense and 58 moe blocks, norm,
// head. From it come the tensors (compose.cpp), the kernels of each layer (composed_work.cpp) and
// the TOML that `stepcast import model` writes (composition_toml.hpp). Architecture::composition
// holds one where the family is `composed`.
//
// Tested by tests/unit/models/composition_test.cpp: a Llama and a Mixtral put together from parts
// are those of models/layout.hpp, kernel by kernel.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture.hpp"
#include "models/model.hpp"
#include "models/modules.hpp"

namespace stepcast {

//   sequential  h += attention(norm1 h); h += mlp(norm2 h); post1 and post2 norm what is added
//   parallel    h += attention(norm1 h) + mlp(norm2 h, or norm1 h where there is no norm2)
//   post_norm   h = norm1(h + attention(h)); h = norm2(h + mlp(h))
enum class Arrangement : std::uint8_t { sequential, parallel, post_norm };

struct BlockKind {
  std::string name;
  std::vector<Module> modules;  // registration order
  Arrangement arrangement = Arrangement::sequential;
  bool causal = true;
  bool query_gate = false;  // q makes a gate of its own size too (Qwen3-Next)
  std::int64_t heads = 0;   // 0: no attention
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;   // of queries and keys
  std::int64_t value_size = 0;  // of values
  std::int64_t rotary = 0;      // elements of a head that turn; 0: other positions or none
  std::int64_t window = 0;      // keys that a query sees at most; 0: all
  std::int64_t chunk = 0;       // tokens attend within chunks of so many (Llama 4); 0: all
  // Latent attention: ranks of the compressed queries (0: not compressed) and keys, and the part of
  // head_size that is one rotary key for all heads.
  std::int64_t q_rank = 0;
  std::int64_t kv_rank = 0;
  std::int64_t rope_size = 0;
  std::int64_t ffn = 0;  // width of a dense MLP
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn = 0;
  std::int64_t shared_ffn = 0;  // of all shared experts together
  std::int64_t state = 0;       // elements of state a token of a state-space mixer moves; 0: none
  std::int64_t memory = 0;      // positions that cross attention looks at; 0: the workload's
};

struct Section {
  LayerKind kind = LayerKind::block;
  std::string name;    // of its layers: "embedding"; of blocks before the number: "layers."
  std::string prefix;  // of its tensors: "model.layers." (a number and a dot follow)
  std::vector<Module> modules;    // of what is no block
  std::vector<int> order;         // blocks: into kinds, one a block
  std::int64_t positions = 0;     // tokens a sequence here; 0: the workload's
  bool registered_early = false;  // registered before the blocks, run after them (OPT's last norm)
};

struct Composition {
  bool rms_norm = true;              // false: LayerNorm
  std::int64_t token_width = 0;      // of the token table, where it is not the hidden size
  std::int64_t position_offset = 0;  // rows of the position table before the first token's (OPT: 2)
  std::vector<BlockKind> kinds;
  std::vector<Section> segments;
  // What is counted right and costed by rule of thumb, or left out: said with every forecast.
  std::vector<std::string> approximations;

  int kind_of(std::string_view name) const;  // -1: none
};

// Whether a module stands for one of each expert: "experts.*.up_proj".
bool is_starred(const Module& module);
bool has_part(const std::vector<Module>& modules, Part part);
// Shape of a module's weight in this block (or, for first and last layers, in this model).
std::vector<std::int64_t> shape_of(const Module& module, const BlockKind& kind,
                                   const Architecture& architecture);

// The tensors of a list of modules, in registration order; stars repeated for each expert.
struct ModuleTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  int module = 0;  // into the list
  bool bias = false;
  int expert = -1;
};
std::vector<ModuleTensor> tensors_of(const std::vector<Module>& modules, const BlockKind& kind,
                                     const Architecture& architecture);

// Elements of one block that a token meets: of the routed experts experts_per_token.
std::int64_t elements_of(const BlockKind& kind, const Architecture& architecture);
std::int64_t active_elements_of(const BlockKind& kind, const Architecture& architecture);

// Segments of blocks: 2 of an encoder-decoder.
int stacks_of(const Composition& composition);

// The widest row of any layer, and the longest sequence besides the workload's own.
std::int64_t widest_of(const Composition& composition);
std::int64_t longest_of(const Composition& composition);

// For FLOPs a token (flops.cpp), over a sequence of seq_len tokens: parameters that a token meets,
// of layers with other positions by their share; and the sum of (query and value width) / 2 x keys.
struct ComposedTerms {
  double parameters = 0;
  double attention = 0;
};
ComposedTerms terms_of(const Model& model, std::int64_t seq_len);

// Fills the architecture's summary (layers, heads, widths: the largest of any kind) from its
// composition, then says what is wrong, if anything.
std::optional<SizeProblem> complete_composition(Architecture& architecture);

Model compose(const std::string& name, const Architecture& architecture);

// The kind of block `number` of the model; with as many layers as the composition says it is the
// composition's own, with more or fewer (largest model that fits) the order is stretched.
int kind_at(const Section& segment, std::int64_t number, std::int64_t count);

}  // namespace stepcast
