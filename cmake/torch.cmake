# The torch of the given Python: version, headers, libraries. Not find_package(Torch), which asks
# for a CUDA toolkit where the wheel has CUDA; the operator calls kernels through the dispatcher.
execute_process(
  COMMAND ${Python_EXECUTABLE} -W ignore -c "
import torch
from torch.utils import cpp_extension as extension
print(torch.__version__)
print(int(torch._C._GLIBCXX_USE_CXX11_ABI))
print(';'.join(extension.include_paths()))
print(';'.join(extension.library_paths()))
"
  OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)

set(EQUIPOISE_TORCH_VERSION)
if(failed)
  message(STATUS "No torch in ${Python_EXECUTABLE}: building without the operator")
else()
  string(REGEX MATCH "([^\n]*)\n([01])\n([^\n]*)\n([^\n]*)" matched "${answer}")
  set(EQUIPOISE_TORCH_VERSION ${CMAKE_MATCH_1})
  message(STATUS "Operator for torch ${EQUIPOISE_TORCH_VERSION}")
  add_library(equipoise_torch_headers INTERFACE)
  target_compile_definitions(equipoise_torch_headers INTERFACE
    _GLIBCXX_USE_CXX11_ABI=${CMAKE_MATCH_2} USE_DISTRIBUTED USE_C10D_GLOO)
  target_include_directories(equipoise_torch_headers SYSTEM INTERFACE ${CMAKE_MATCH_3})
  target_link_directories(equipoise_torch_headers INTERFACE ${CMAKE_MATCH_4})
  target_link_libraries(equipoise_torch_headers INTERFACE c10 torch torch_cpu)
endif()
