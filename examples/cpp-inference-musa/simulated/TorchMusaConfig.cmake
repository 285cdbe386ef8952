# A machine without the card: this takes the place of the package TorchMusa that torch_musa installs.
#
#   cmake -DTorchMusa_DIR=simulated -DSIMULATED_DEVICE=<library of the simulated card>
find_package(Torch REQUIRED)
add_library(torch_musa SHARED ${CMAKE_CURRENT_LIST_DIR}/torch_musa.cpp)
target_compile_definitions(torch_musa PRIVATE SIMULATED_DEVICE="${SIMULATED_DEVICE}")
target_link_libraries(torch_musa PUBLIC ${TORCH_LIBRARIES} PRIVATE ${CMAKE_DL_LIBS})
# as the plugin's own package does: no symbol of it is called, and the linker would leave it out
target_link_options(torch_musa INTERFACE "LINKER:--no-as-needed")
