import glob
import os

import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension


def get_extensions():
    define_macros = []
    include_dirs = []
    extra_compile_args = {'cxx': ['-O2']}
    if torch.cuda.is_available() or os.getenv('FORCE_CUDA', '0') == '1':
        define_macros += [('BOXOPS_WITH_CUDA', None)]
        extra_compile_args['nvcc'] = ['-O3', '--expt-relaxed-constexpr']
        op_files = glob.glob('./boxops/csrc/pytorch/*.cpp') + \
            glob.glob('./boxops/csrc/pytorch/cuda/*.cu')
        extension = CUDAExtension
        include_dirs.append(os.path.abspath('./boxops/csrc/pytorch'))
        include_dirs.append(os.path.abspath('./boxops/csrc/common/cuda'))
    else:
        op_files = glob.glob('./boxops/csrc/pytorch/*.cpp')
        extension = CppExtension
        include_dirs.append(os.path.abspath('./boxops/csrc/pytorch'))
    return [
        extension(
            name='boxops._ext',
            sources=op_files,
            include_dirs=include_dirs,
            define_macros=define_macros,
            extra_compile_args=extra_compile_args)
    ]


setup(
    name='boxops',
    version='0.1.0',
    packages=find_packages(include=['boxops']),
    ext_modules=get_extensions(),
    cmdclass={'build_ext': BuildExtension})
