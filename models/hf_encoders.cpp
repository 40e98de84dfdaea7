// Encoders beside bert and vit, and encoder-decoders.
//
//   roberta, xlm-roberta  bert's blocks; positions begin at row 2; one head for masked tokens
//   distilbert            bert without segments
//   t5, mt5, umt5         RMSNorm, relative positions as a bias of the scores; cross attention
//   whisper               two convolutions, 1,500 positions of sound, then a decoder of tokens
//
// A sequence of an encoder-decoder has as many tokens in the encoder as in the decoder (T5), or the
// encoder's own number (Whisper). The encoder's result is kept for the decoder's cross attentions.
//
// Source: modeling_*.py of transformers 4.x. Tested by tests/unit/models/hf_families_test.cpp with
// published parameter counts.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

void refuse_other_heads(const JsonReader& json, const std::vector<std::string>& accepted) {
  const std::vector<std::string> classes = json.strings("architectures");
  if (classes.empty()) return;
  if (std::find(accepted.begin(), accepted.end(), classes.front()) == accepted.end()) {
    throw not_accepted(json.where("architectures"), classes.front(), accepted);
  }
}

void single(Composition& c, LayerKind kind, std::string name, std::string_view modules,
            std::int64_t positions = 0) {
  Section& segment = c.segments.emplace_back();
  segment.kind = kind;
  segment.name = std::move(name);
  segment.modules = modules_of(modules);
  segment.positions = positions;
}

void stack(Composition& c, std::string name, std::string prefix, std::vector<int> order,
           std::int64_t positions = 0) {
  Section& segment = c.segments.emplace_back();
  segment.name = std::move(name);
  segment.prefix = std::move(prefix);
  segment.order = std::move(order);
  segment.positions = positions;
}

std::vector<int> all(std::int64_t count, int kind) {
  return std::vector<int>(static_cast<std::size_t>(count), kind);
}

}  // namespace

Read read_roberta(const JsonReader& json) {
  Draft d(json, {.kv_heads = "", .head_size = ""}, true);
  refuse_other_heads(json, {"RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"});
  refuse_if(json, "tie_word_embeddings", !d.tied,
            "is false; accepted: true, the head uses the token table");
  const std::string positions =
      json.optional_string("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    throw not_accepted(json.where("position_embedding_type"), positions, {"absolute"});
  }
  refuse_if(json, "max_position_embeddings", d.read.sizes.max_positions < 3,
            "leaves no position; accepted: 3 or more, two of which are padding's");
  d.composition.position_offset = 2;
  d.read.sizes.max_positions -= 2;
  d.read.sizes.token_types = size_or(json, "type_vocab_size", 1, 1 << 20);
  d.read.sizes.learned_positions = true;
  BlockKind k =
      d.block("encoder",
              "attention.self.query=q+bias attention.self.key=k+bias attention.self.value=v+bias"
              " attention.output.dense=o+bias attention.output.LayerNorm=norm1+bias"
              " intermediate.dense=up+bias output.dense=down+bias output.LayerNorm=norm2+bias");
  k.arrangement = Arrangement::post_norm;
  k.causal = false;
  k.rotary = 0;
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.embedding_dropout = d.read.sizes.residual_dropout =
      drops(json, "hidden_dropout_prob", 0.1);
  d.read.sizes.attention_dropout = drops(json, "attention_probs_dropout_prob", 0.1);
  d.stack(
      "roberta.embeddings.word_embeddings=tokens"
      " roberta.embeddings.position_embeddings=positions"
      " roberta.embeddings.token_type_embeddings=types"
      " roberta.embeddings.LayerNorm=norm1+bias",
      "roberta.encoder.layer.", "",
      fmt::format("lm_head.bias=tensor:{0}+bare lm_head.dense=linear:{1}x{1}+bias"
                  " lm_head.layer_norm=norm:{1}+bias",
                  d.read.sizes.vocabulary, d.hidden));
  return std::move(d).finish();
}

Read read_distilbert(const JsonReader& json) {
  Draft d(json,
          {.hidden = "dim",
           .layers = "n_layers",
           .heads = "n_heads",
           .kv_heads = "",
           .head_size = "",
           .ffn = "hidden_dim"},
          true);
  refuse_other_heads(json, {"DistilBertForMaskedLM"});
  refuse_if(json, "tie_word_embeddings", !d.tied,
            "is false; accepted: true, the head uses the token table");
  d.read.sizes.learned_positions = true;
  BlockKind k = d.block("encoder",
                        "attention.q_lin=q+bias attention.k_lin=k+bias attention.v_lin=v+bias"
                        " attention.out_lin=o+bias sa_layer_norm=norm1+bias ffn.lin1=up+bias"
                        " ffn.lin2=down+bias output_layer_norm=norm2+bias");
  k.arrangement = Arrangement::post_norm;
  k.causal = false;
  k.rotary = 0;
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.embedding_dropout = d.read.sizes.residual_dropout = drops(json, "dropout", 0.1);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.1);
  d.stack(
      "distilbert.embeddings.word_embeddings=tokens"
      " distilbert.embeddings.position_embeddings=positions"
      " distilbert.embeddings.LayerNorm=norm1+bias",
      "distilbert.transformer.layer.", "",
      fmt::format("vocab_transform=linear:{0}x{0}+bias vocab_layer_norm=norm:{0}+bias"
                  " vocab_projector.bias=tensor:{1}+bare",
                  d.hidden, d.read.sizes.vocabulary));
  return std::move(d).finish();
}

Read read_t5(const JsonReader& json) {
  Draft d(json,
          {.hidden = "d_model",
           .layers = "num_layers",
           .heads = "num_heads",
           .kv_heads = "",
           .head_size = "d_kv",
           .ffn = "d_ff",
           .positions = "n_positions"},
          true);
  refuse_other_heads(json, {"T5ForConditionalGeneration", "T5WithLMHeadModel",
                            "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration"});
  if (d.read.sizes.max_positions == 0) d.read.sizes.max_positions = 512;  // what T5 was trained on
  const std::string mlp = json.optional_string("feed_forward_proj").value_or("relu");
  static const std::vector<std::string> known{"relu", "gelu", "gated-gelu", "gated-relu",
                                              "gated-silu"};
  if (std::find(known.begin(), known.end(), mlp) == known.end()) {
    throw not_accepted(json.where("feed_forward_proj"), mlp, known);
  }
  const bool gated = mlp.starts_with("gated-");
  const std::int64_t buckets =
      size_or(json, "relative_attention_num_buckets", 32, SizeLimits::hidden);
  const bool everywhere = json.optional_string("model_type").value_or("t5") == "umt5";
  const auto modules = [&](bool decoder, bool first) {
    std::string text =
        "layer.0.SelfAttention.q=q layer.0.SelfAttention.k=k layer.0.SelfAttention.v=v"
        " layer.0.SelfAttention.o=o";
    if (first || everywhere) {
      text += fmt::format(" layer.0.SelfAttention.relative_attention_bias=tensor:{}x{}", buckets,
                          d.heads);
    }
    text += " layer.0.layer_norm=norm1";
    if (decoder) {
      text +=
          " layer.1.EncDecAttention.q=cross_q layer.1.EncDecAttention.k=cross_k"
          " layer.1.EncDecAttention.v=cross_v layer.1.EncDecAttention.o=cross_o"
          " layer.1.layer_norm=cross_norm";
    }
    const std::string ffn = fmt::format("layer.{}.", decoder ? 2 : 1);
    text += " " + ffn +
            (gated ? "DenseReluDense.wi_0=gate " + ffn + "DenseReluDense.wi_1=up"
                   : "DenseReluDense.wi=up");
    return text + " " + ffn + "DenseReluDense.wo=down " + ffn + "layer_norm=norm2";
  };
  const auto kind = [&](const char* name, bool decoder, bool first) {
    BlockKind k = d.block(name, modules(decoder, first));
    k.causal = decoder;
    k.rotary = 0;
    return d.add(std::move(k));
  };
  const std::int64_t decoders = size_or(json, "num_decoder_layers", d.layers, SizeLimits::layers);
  std::vector<int> encoder = all(d.layers, kind("encoder", false, false));
  std::vector<int> decoder = all(decoders, kind("decoder", true, false));
  if (!everywhere) {
    encoder[0] = kind("encoder-first", false, true);
    decoder[0] = kind("decoder-first", true, true);
  }
  d.read.sizes.embedding_dropout = d.read.sizes.residual_dropout = drops(json, "dropout_rate", 0.1);
  d.read.sizes.attention_dropout = d.read.sizes.residual_dropout;
  d.approximate(
      "encoder-decoder: encoder and decoder each run seq_len tokens, the decoder's hidden state "
      "while the encoder runs is not counted, and relative positions cost nothing");
  Composition& c = d.composition;
  single(c, LayerKind::embedding, "embedding", "shared=tokens");
  stack(c, "encoder.", "encoder.block.", std::move(encoder));
  single(c, LayerKind::final_norm, "encoder_norm", "encoder.final_layer_norm=norm1");
  stack(c, "decoder.", "decoder.block.", std::move(decoder));
  single(c, LayerKind::final_norm, "norm", "decoder.final_layer_norm=norm1");
  single(c, LayerKind::head, "head", d.tied ? "" : "lm_head=head");
  return std::move(d).finish();
}

Read read_whisper(const JsonReader& json) {
  Draft d(json,
          {.hidden = "d_model",
           .layers = "decoder_layers",
           .heads = "decoder_attention_heads",
           .kv_heads = "",
           .head_size = "",
           .ffn = "decoder_ffn_dim",
           .positions = "max_target_positions"},
          true);
  refuse_other_heads(json, {"WhisperForConditionalGeneration"});
  const std::int64_t encoders = size_of(json, "encoder_layers", SizeLimits::layers);
  const std::int64_t sound = size_or(json, "max_source_positions", 1500, 1 << 20);
  const std::int64_t mels = size_or(json, "num_mel_bins", 80, 1 << 16);
  const std::int64_t encoder_heads = size_of(json, "encoder_attention_heads", d.hidden);
  const std::int64_t encoder_ffn = size_of(json, "encoder_ffn_dim", SizeLimits::ffn_hidden);
  refuse_if(json, "encoder_attention_heads", d.hidden % encoder_heads != 0,
            "does not divide d_model");
  if (d.read.sizes.max_positions == 0) d.read.sizes.max_positions = 448;
  d.read.sizes.learned_positions = true;
  const auto attention = [](const std::string& module, const std::string& part) {
    return module + ".k_proj=" + part + "k " + module + ".v_proj=" + part + "v+bias " + module +
           ".q_proj=" + part + "q+bias " + module + ".out_proj=" + part + "o+bias ";
  };
  const std::string mlp = "fc1=up+bias fc2=down+bias final_layer_norm=norm2+bias";
  BlockKind encoder =
      d.block("encoder", attention("self_attn", "") + "self_attn_layer_norm=norm1+bias " + mlp);
  encoder.heads = encoder.kv_heads = encoder_heads;
  encoder.head_size = encoder.value_size = d.hidden / encoder_heads;
  encoder.ffn = encoder_ffn;
  encoder.causal = false;
  encoder.rotary = 0;
  BlockKind decoder =
      d.block("decoder", attention("self_attn", "") + "self_attn_layer_norm=norm1+bias " +
                             attention("encoder_attn", "cross_") +
                             "encoder_attn_layer_norm=cross_norm+bias " + mlp);
  decoder.rotary = 0;
  decoder.memory = sound;
  const int encoder_kind = d.add(std::move(encoder));
  const int decoder_kind = d.add(std::move(decoder));
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.approximate(fmt::format(
      "whisper: the two convolutions are costed as products of {} rows each, and the encoder's "
      "table of positions, which is frozen, counts as trained",
      sound));
  Composition& c = d.composition;
  single(
      c, LayerKind::stem, "stem",
      fmt::format("model.encoder.conv1=linear:{0}x{1}+bias model.encoder.conv2=linear:{0}x{2}+bias"
                  " model.encoder.embed_positions=tensor:{3}x{0}",
                  d.hidden, 3 * mels, 3 * d.hidden, sound),
      sound);
  stack(c, "encoder.", "model.encoder.layers.", all(encoders, encoder_kind), sound);
  single(c, LayerKind::final_norm, "encoder_norm", "model.encoder.layer_norm=norm1+bias", sound);
  single(c, LayerKind::embedding, "embedding",
         "model.decoder.embed_tokens=tokens model.decoder.embed_positions=positions");
  stack(c, "decoder.", "model.decoder.layers.", all(d.layers, decoder_kind));
  single(c, LayerKind::final_norm, "norm", "model.decoder.layer_norm=norm1+bias");
  single(c, LayerKind::head, "head", d.tied ? "" : "proj_out=head");
  return std::move(d).finish();
}

}  // namespace stepcast::hf
