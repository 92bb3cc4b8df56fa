"""Devices, meshes and their memory, and the machine that programs are compiled for.

Promise: an array is on the devices that PyTorch's names say, and running out of memory is one
error, raised before anything has changed. Imports `support`, and the open sizes of `interpreter`.

- `device.py` maps PyTorch's names to JAX's devices. `compiler.py` describes the machine: its cores,
  and whether operators take the forms for CPUs (`cpu_forms`).
- `donation.py` decides by reference counts which arrays a program may overwrite.
- `limits.py` bounds the programs in memory: half of the memory maps of a process, an eighth of its
  memory. `headroom.py` and `exhaustion.py` are about running out of memory; `heap.py` keeps the
  memory that programs have freed in the process.
- `native.py` finds the library of native kernels, and registers its functions with XLA.
- `meshes.py`: arrays on several devices are on meshes with Auto axes; others are converted when
  they come in. If one argument of a program is on a mesh, arguments on one of its devices are
  copied to all of them. A write keeps the sharding of the former array.
- `spanning.py`: arrays on devices of several processes, which all run the same programs.
"""
