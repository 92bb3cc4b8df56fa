// Functions of rows, as XLA calls them. The last dimension is that of a row.

#include <algorithm>

#include "handler.h"
#include "normalization.h"
#include "rows.h"

namespace flambeau {
namespace {

constexpr const char* kName = "flambeau's function of rows";

// How an array is divided into rows. There is none where it is empty.
ffi::Error rows_of(Array array, std::initializer_list<Dimensions> like, Rows& rows) {
  const Dimensions sizes = array.dimensions();
  for (const Dimensions each : like) {
    if (each.size() == sizes.size() && std::equal(each.begin(), each.end(), sizes.begin())) continue;
    return ffi::Error::InvalidArgument(std::string(kName) + ": arrays " + text_of(sizes) + " and " +
                                       text_of(each) + " must have one shape");
  }
  if (sizes.size() == 0) {
    return ffi::Error::InvalidArgument(std::string(kName) + ": needs at least one dimension");
  }
  rows.size = sizes[sizes.size() - 1];
  rows.count = rows.size == 0 ? 0 : static_cast<std::int64_t>(array.element_count()) / rows.size;
  return ffi::Error::Success();
}

template <OfRow RowLoops::*kFunction>
ffi::Error map_of(ffi::ThreadPool threads, Array from, Result to) {
  Rows rows;
  ffi::Error error = rows_of(from, {to->dimensions()}, rows);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    map_rows(row_loops().*kFunction, rows, from.typed_data(), to->typed_data(), pool_of(threads));
  });
}

template <OfTwoRows RowLoops::*kFunction>
ffi::Error gradient_of(ffi::ThreadPool threads, Array results, Array cotangents, Result to) {
  Rows rows;
  ffi::Error error = rows_of(results, {cotangents.dimensions(), to->dimensions()}, rows);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    map_two_rows(row_loops().*kFunction, rows, results.typed_data(), cotangents.typed_data(),
                 to->typed_data(), pool_of(threads));
  });
}

// Arrays with one number for each row.
ffi::Error check_numbers(Array array, std::initializer_list<Dimensions> numbers) {
  const Dimensions sizes = array.dimensions();
  for (const Dimensions each : numbers) {
    if (std::equal(each.begin(), each.end(), sizes.begin(), sizes.end() - 1)) continue;
    return ffi::Error::InvalidArgument(std::string(kName) + ": rows " + text_of(sizes) +
                                       " need one number each, got " + text_of(each));
  }
  return ffi::Error::Success();
}

ffi::Error log_sums_of(ffi::ThreadPool threads, Array from, Result greatest, Result logarithms) {
  Rows rows;
  ffi::Error error = rows_of(from, {}, rows);
  if (error.failure()) return error;
  error = check_numbers(from, {greatest->dimensions(), logarithms->dimensions()});
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    log_sums(rows, from.typed_data(), greatest->typed_data(), logarithms->typed_data(),
             pool_of(threads));
  });
}

ffi::Error cross_entropy_gradient_of(ffi::ThreadPool threads, Array from, Array greatest,
                                     Array logarithms, ffi::Buffer<ffi::S32> targets,
                                     Array cotangents, Result to) {
  Rows rows;
  ffi::Error error = rows_of(from, {to->dimensions()}, rows);
  if (error.failure()) return error;
  error = check_numbers(from, {greatest.dimensions(), logarithms.dimensions(),
                               targets.dimensions(), cotangents.dimensions()});
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    cross_entropy_gradient(rows,
                           {from.typed_data(), greatest.typed_data(), logarithms.typed_data(),
                            targets.typed_data(), cotangents.typed_data()},
                           to->typed_data(), pool_of(threads));
  });
}

// Rows that are scaled and shifted: (..., size), or (parts, ..., size) where each part of them has
// vectors of its own, (parts, size).
struct Parts {
  std::int64_t count = 1;
  Rows rows;  // of one part
};

ffi::Error parts_of(const Rows& rows, Dimensions sizes, std::initializer_list<Dimensions> vectors,
                    Parts& parts) {
  const bool has_parts = vectors.begin()->size() == 2;
  if (has_parts) parts.count = sizes[0];
  parts.rows = {rows.count / std::max<std::int64_t>(parts.count, 1), rows.size};
  for (const Dimensions each : vectors) {
    const bool fits = has_parts ? each.size() == 2 && sizes.size() > 2 && each[0] == parts.count &&
                                      each[1] == rows.size
                                : each.size() == 1 && each[0] == rows.size;
    if (fits) continue;
    return ffi::Error::InvalidArgument(std::string(kName) + ": weight and bias must have shape [" +
                                       std::to_string(rows.size) + "], got " + text_of(each));
  }
  return ffi::Error::Success();
}

ffi::Error standardize_of(ffi::ThreadPool threads, Array from, Array weight, Array bias,
                          float epsilon, Result to) {
  Rows rows;
  ffi::Error error = rows_of(from, {to->dimensions()}, rows);
  if (error.failure()) return error;
  Parts parts;
  error = parts_of(rows, from.dimensions(), {weight.dimensions(), bias.dimensions()}, parts);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    const Pool pool = pool_of(threads);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const std::int64_t vector = part * rows.size, row = vector * parts.rows.count;
      standardize_rows(parts.rows, from.typed_data() + row, weight.typed_data() + vector,
                       bias.typed_data() + vector, epsilon, to->typed_data() + row, pool);
    }
  });
}

ffi::Error standardize_gradients_of(ffi::ThreadPool threads, Array cotangents, Array from,
                                    Array weight, float epsilon, Result by_rows, Result by_weight,
                                    Result by_bias) {
  Rows rows;
  ffi::Error error = rows_of(from, {cotangents.dimensions(), by_rows->dimensions()}, rows);
  if (error.failure()) return error;
  Parts parts;
  error = parts_of(rows, from.dimensions(),
                   {weight.dimensions(), by_weight->dimensions(), by_bias->dimensions()}, parts);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    const Pool pool = pool_of(threads);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const std::int64_t vector = part * rows.size, row = vector * parts.rows.count;
      standardize_rows_gradients(parts.rows, from.typed_data() + row, weight.typed_data() + vector,
                                 cotangents.typed_data() + row, epsilon,
                                 {by_rows->typed_data() + row, by_weight->typed_data() + vector,
                                  by_bias->typed_data() + vector},
                                 pool);
    }
  });
}

// Groups of channels that are scaled and shifted: (samples, channels, size), or (parts, samples,
// channels, size) where each part of them has vectors of its own, (parts, channels).
struct PartsOfGroups {
  std::int64_t count = 1;
  Groups groups;  // of one part
  std::int64_t numbers() const { return groups.samples * groups.channels * groups.size; }
};

ffi::Error parts_of_groups(Array array, std::int64_t count,
                           std::initializer_list<Dimensions> like,
                           std::initializer_list<Dimensions> vectors, PartsOfGroups& parts) {
  Rows rows;
  const ffi::Error error = rows_of(array, like, rows);
  if (error.failure()) return error;
  const Dimensions sizes = array.dimensions();
  const std::size_t rank = sizes.size(), has_parts = vectors.begin()->size() == 2 ? 1 : 0;
  if (rank != 3 + has_parts) {
    return ffi::Error::InvalidArgument(std::string(kName) + ": arrays must have dimensions " +
                                       "(samples, channels, size), got " + text_of(sizes));
  }
  if (has_parts) parts.count = sizes[0];
  parts.groups = {sizes[rank - 3], sizes[rank - 2], sizes[rank - 1], count};
  if (count <= 0 || parts.groups.channels % count != 0) {
    return ffi::Error::InvalidArgument(std::string(kName) + ": " + std::to_string(count) +
                                       " groups do not divide " +
                                       std::to_string(parts.groups.channels) + " channels");
  }
  for (const Dimensions each : vectors) {
    if (each.size() == 1 + has_parts && each[has_parts] == parts.groups.channels &&
        (!has_parts || each[0] == parts.count)) {
      continue;
    }
    return ffi::Error::InvalidArgument(std::string(kName) + ": weight and bias must have shape [" +
                                       std::to_string(parts.groups.channels) + "], got " +
                                       text_of(each));
  }
  return ffi::Error::Success();
}

ffi::Error standardize_groups_of(ffi::ThreadPool threads, Array from, Array weight, Array bias,
                                 float epsilon, std::int64_t count, Result to) {
  PartsOfGroups parts;
  const ffi::Error error = parts_of_groups(from, count, {to->dimensions()},
                                           {weight.dimensions(), bias.dimensions()}, parts);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    const Pool pool = pool_of(threads);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const std::int64_t vector = part * parts.groups.channels, at = part * parts.numbers();
      standardize_groups(parts.groups, from.typed_data() + at, weight.typed_data() + vector,
                         bias.typed_data() + vector, epsilon, to->typed_data() + at, pool);
    }
  });
}

ffi::Error standardize_groups_gradients_of(ffi::ThreadPool threads, Array cotangents, Array from,
                                           Array weight, float epsilon, std::int64_t count,
                                           Result by_channels, Result by_weight, Result by_bias) {
  PartsOfGroups parts;
  const ffi::Error error = parts_of_groups(
      from, count, {cotangents.dimensions(), by_channels->dimensions()},
      {weight.dimensions(), by_weight->dimensions(), by_bias->dimensions()}, parts);
  if (error.failure()) return error;
  return run_safely(kName, [&] {
    const Pool pool = pool_of(threads);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const std::int64_t vector = part * parts.groups.channels, at = part * parts.numbers();
      standardize_groups_gradients(parts.groups, from.typed_data() + at,
                                   weight.typed_data() + vector, cotangents.typed_data() + at,
                                   epsilon,
                                   {by_channels->typed_data() + at, by_weight->typed_data() + vector,
                                    by_bias->typed_data() + vector},
                                   pool);
    }
  });
}

auto with_one_array() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Ret<Array>();
}

auto with_two_arrays() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Ret<Array>();
}

auto with_three_arrays() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<Array>()
      .Arg<Array>()
      .Arg<Array>()
      .Attr<float>("epsilon");
}

auto with_groups() { return with_three_arrays().Attr<std::int64_t>("groups"); }

}  // namespace
}  // namespace flambeau

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_softmax, flambeau::map_of<&flambeau::RowLoops::softmax>,
                              flambeau::with_one_array());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_log_softmax,
                              flambeau::map_of<&flambeau::RowLoops::log_softmax>,
                              flambeau::with_one_array());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_softmax_gradient,
                              flambeau::gradient_of<&flambeau::RowLoops::softmax_gradient>,
                              flambeau::with_two_arrays());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_log_softmax_gradient,
                              flambeau::gradient_of<&flambeau::RowLoops::log_softmax_gradient>,
                              flambeau::with_two_arrays());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_log_sum, flambeau::log_sums_of,
                              flambeau::with_one_array().Ret<flambeau::Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_cross_entropy_gradient, flambeau::cross_entropy_gradient_of,
                              flambeau::ffi::Ffi::Bind()
                                  .Ctx<flambeau::ffi::ThreadPool>()
                                  .Arg<flambeau::Array>()
                                  .Arg<flambeau::Array>()
                                  .Arg<flambeau::Array>()
                                  .Arg<flambeau::ffi::Buffer<flambeau::ffi::S32>>()
                                  .Arg<flambeau::Array>()
                                  .Ret<flambeau::Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_cumsum,
                              flambeau::map_of<&flambeau::RowLoops::running_sum>,
                              flambeau::with_one_array());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_cumsum_gradient,
                              flambeau::map_of<&flambeau::RowLoops::running_sum_gradient>,
                              flambeau::with_one_array());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_standardize, flambeau::standardize_of,
                              flambeau::with_three_arrays().Ret<flambeau::Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    flambeau_standardize_gradients, flambeau::standardize_gradients_of,
    flambeau::with_three_arrays()
        .Ret<flambeau::Array>()
        .Ret<flambeau::Array>()
        .Ret<flambeau::Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(flambeau_standardize_groups, flambeau::standardize_groups_of,
                              flambeau::with_groups().Ret<flambeau::Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    flambeau_standardize_groups_gradients, flambeau::standardize_groups_gradients_of,
    flambeau::with_groups()
        .Ret<flambeau::Array>()
        .Ret<flambeau::Array>()
        .Ret<flambeau::Array>());

#pragma GCC visibility pop
