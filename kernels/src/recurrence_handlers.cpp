// Recurrent layers, as XLA calls them. Where parts of the samples have weights of their own, all
// arrays have one more dimension, their number, before the others.

#include <algorithm>
#include <vector>

#include "handler.h"
#include "recurrence.h"

namespace flambeau {
namespace {

constexpr const char* kName = "flambeau's LSTM";

using Sizes = std::vector<std::int64_t>;

// The layer that a call states by two of its arrays, and how many parts it has.
class Call {
 public:
  // From (..., features) and weights (4 * size, size).
  ffi::Error read(Dimensions input, Dimensions weight, bool samples_first, bool is_reverse) {
    const std::size_t rank = input.size();
    if ((rank != 3 && rank != 4) || weight.size() + 1 != rank) {
      return ffi::Error::InvalidArgument(std::string(kName) + ": takes inputs of 3 dimensions and " +
                                         "weights of 2, got " + text_of(input) + " and " +
                                         text_of(weight));
    }
    has_parts_ = rank == 4;
    if (has_parts_) parts = input[0];
    const std::int64_t outer = input[rank - 3], inner = input[rank - 2];
    layer = {samples_first ? inner : outer, samples_first ? outer : inner, input[rank - 1],
             weight[rank - 2], samples_first, is_reverse};
    return ffi::Error::Success();
  }

  // (steps, samples, width) or the other way round.
  Sizes steps(std::int64_t width) const {
    if (layer.samples_first) return {layer.samples, layer.steps, width};
    return {layer.steps, layer.samples, width};
  }
  Sizes state() const { return {layer.samples, layer.size}; }
  Sizes weight(std::int64_t columns) const { return {4 * layer.size, columns}; }

  void check(const char* name, Dimensions found, Sizes expected) {
    if (has_parts_) expected.insert(expected.begin(), parts);
    if (error.failure() || std::equal(found.begin(), found.end(), expected.begin(), expected.end())) {
      return;
    }
    error = ffi::Error::InvalidArgument(std::string(kName) + ": " + name + " must have shape " +
                                        text_of({expected.data(), expected.size()}) + ", got " +
                                        text_of(found));
  }

  // An array of one part; null where it is empty.
  const float* part(std::int64_t part, Array array) const {
    const std::int64_t size = static_cast<std::int64_t>(array.element_count()) / parts;
    return size == 0 ? nullptr : array.typed_data() + part * size;
  }
  float* part(std::int64_t part, Result array) const {
    const std::int64_t size = static_cast<std::int64_t>(array->element_count()) / parts;
    return size == 0 ? nullptr : array->typed_data() + part * size;
  }

  Lstm layer = {};
  std::int64_t parts = 1;
  ffi::Error error = ffi::Error::Success();

 private:
  bool has_parts_ = false;
};

// The width of what is kept, or 0 where it is not asked for.
std::int64_t kept(Result array, std::int64_t width) {
  return array->element_count() == 0 ? 0 : width;
}

ffi::Error results_of(ffi::ThreadPool threads, Array input, Array hidden, Array memory,
                      Array by_input, Array by_hidden, Array bias, bool samples_first,
                      bool is_reverse, Result outputs, Result last, Result gates,
                      Result memories) {
  Call call;
  const ffi::Error error =
      call.read(input.dimensions(), by_hidden.dimensions(), samples_first, is_reverse);
  if (error.failure()) return error;
  const std::int64_t size = call.layer.size;
  call.check("the first hidden state", hidden.dimensions(), call.state());
  call.check("the first memory", memory.dimensions(), call.state());
  call.check("the input's weights", by_input.dimensions(), call.weight(call.layer.features));
  call.check("the hidden state's weights", by_hidden.dimensions(), call.weight(size));
  call.check("the bias", bias.dimensions(), {4 * size});
  call.check("the outputs", outputs->dimensions(), call.steps(size));
  call.check("the last memory", last->dimensions(), call.state());
  call.check("the gates", gates->dimensions(), call.steps(kept(gates, 4 * size)));
  call.check("the memories", memories->dimensions(), call.steps(kept(memories, size)));
  if (call.error.failure() || outputs->element_count() == 0) return call.error;
  return run_safely(kName, [&] {
    for (std::int64_t part = 0; part < call.parts; ++part) {
      run_lstm(call.layer,
               {call.part(part, input), call.part(part, hidden), call.part(part, memory),
                call.part(part, by_input), call.part(part, by_hidden), call.part(part, bias)},
               {call.part(part, outputs), call.part(part, last), call.part(part, gates),
                call.part(part, memories)},
               pool_of(threads));
    }
  });
}

ffi::Error gradient_of(ffi::ThreadPool threads, Array outputs, Array hidden, Array memory,
                       Array gates, Array memories, Array first_memory, Array by_input,
                       Array by_hidden, bool samples_first, bool is_reverse, Result to_gates,
                       Result to_bias, Result to_hidden, Result to_memory, Result to_input) {
  Call call;
  const ffi::Error error =
      call.read(to_input->dimensions(), by_hidden.dimensions(), samples_first, is_reverse);
  if (error.failure()) return error;
  const std::int64_t size = call.layer.size;
  call.check("the input's weights", by_input.dimensions(), call.weight(call.layer.features));
  call.check("the hidden state's weights", by_hidden.dimensions(), call.weight(size));
  for (const Dimensions each : {hidden.dimensions(), memory.dimensions(),
                                first_memory.dimensions(), to_hidden->dimensions(),
                                to_memory->dimensions()}) {
    call.check("a state", each, call.state());
  }
  call.check("the outputs", outputs.dimensions(), call.steps(size));
  call.check("the memories", memories.dimensions(), call.steps(size));
  call.check("the gates", gates.dimensions(), call.steps(4 * size));
  call.check("the gates' cotangents", to_gates->dimensions(), call.steps(4 * size));
  call.check("the bias' cotangents", to_bias->dimensions(), {call.layer.samples, 4 * size});
  if (call.error.failure() || outputs.element_count() == 0) return call.error;
  return run_safely(kName, [&] {
    for (std::int64_t part = 0; part < call.parts; ++part) {
      run_lstm_gradient(
          call.layer,
          {call.part(part, outputs), call.part(part, hidden), call.part(part, memory),
           call.part(part, gates), call.part(part, memories), call.part(part, first_memory),
           call.part(part, by_input), call.part(part, by_hidden)},
          {call.part(part, to_gates), call.part(part, to_bias), call.part(part, to_hidden),
           call.part(part, to_memory), call.part(part, to_input)},
          pool_of(threads));
    }
  });
}

ffi::Error weights_of(ffi::ThreadPool threads, Array input, Array hidden, Array outputs,
                      Array by_gates, bool samples_first, bool is_reverse, Result by_input,
                      Result by_hidden) {
  Call call;
  const ffi::Error error =
      call.read(input.dimensions(), by_hidden->dimensions(), samples_first, is_reverse);
  if (error.failure()) return error;
  const std::int64_t size = call.layer.size;
  call.check("the first hidden state", hidden.dimensions(), call.state());
  call.check("the outputs", outputs.dimensions(), call.steps(size));
  call.check("the gates' cotangents", by_gates.dimensions(), call.steps(4 * size));
  call.check("the input's weights", by_input->dimensions(), call.weight(call.layer.features));
  call.check("the hidden state's weights", by_hidden->dimensions(), call.weight(size));
  if (call.error.failure()) return call.error;
  if (outputs.element_count() == 0) {
    for (Result each : {by_input, by_hidden}) {
      std::fill_n(each->typed_data(), each->element_count(), 0.0f);
    }
    return ffi::Error::Success();
  }
  return run_safely(kName, [&] {
    for (std::int64_t part = 0; part < call.parts; ++part) {
      run_lstm_weights(call.layer,
                       {call.part(part, input), call.part(part, hidden), call.part(part, outputs),
                        call.part(part, by_gates)},
                       call.part(part, by_input), call.part(part, by_hidden), pool_of(threads));
    }
  });
}

template <int kArrays, int kResults>
auto layer_with() {
  return with_results<kResults>(with_arrays<kArrays>(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>())
                                    .template Attr<bool>("samples_first")
                                    .template Attr<bool>("is_reverse"));
}

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_lstm, flambeau::results_of, (flambeau::layer_with<6, 4>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_lstm_gradient, flambeau::gradient_of,
                              (flambeau::layer_with<8, 5>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_lstm_weights, flambeau::weights_of,
                              (flambeau::layer_with<4, 2>()));

#pragma GCC visibility pop
