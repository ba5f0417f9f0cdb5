// Handlers for tests/test_ffi.py, which adds that of docs/ffi.md: see xla/ffi/api/ffi.h, which jaxlib ships.
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = factor * x + sum(shift), and in `count` the number of elements.
static ffi::Error Shift(float factor, ffi::Span<const int32_t> shift, std::string_view mode, ffi::Buffer<ffi::F32> x,
                        ffi::ResultBuffer<ffi::F32> y, ffi::ResultBuffer<ffi::S32> count) {
  if (mode != "scale") return ffi::Error::InvalidArgument("no such mode");
  float sum = 0;
  for (int32_t s : shift) sum += s;
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i] + sum;
  for (size_t i = 0; i < count->element_count(); ++i)
    count->typed_data()[i] = static_cast<int32_t>(x.element_count());
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ShiftHandler, Shift,
                              ffi::Ffi::Bind()
                                  .Attr<float>("factor")
                                  .Attr<ffi::Span<const int32_t>>("shift")
                                  .Attr<std::string_view>("mode")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

// Writes the elements as they lie in memory.
static ffi::Error Raw(int64_t start, ffi::Dictionary more, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  double slope = more.get<double>("slope").value();
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = start + slope * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RawHandler, Raw,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("start")
                                  .Attr<ffi::Dictionary>("more")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// The sums of the spans, and of the bytes of the text.
static ffi::Error Sums(ffi::Span<const uint8_t> bytes, ffi::Span<const double> numbers, std::string_view text,
                       ffi::ResultBuffer<ffi::F64> y) {
  double* sums = y->typed_data();
  sums[0] = sums[1] = sums[2] = 0;
  for (uint8_t b : bytes) sums[0] += b;
  for (double x : numbers) sums[1] += x;
  for (unsigned char c : text) sums[2] += c;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(SumsHandler, Sums,
                              ffi::Ffi::Bind()
                                  .Attr<ffi::Span<const uint8_t>>("bytes")
                                  .Attr<ffi::Span<const double>>("numbers")
                                  .Attr<std::string_view>("text")
                                  .Ret<ffi::Buffer<ffi::F64>>());
