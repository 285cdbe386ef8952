"""Where tensors and what holds them are moved to, and what they say of it."""

import torch
from torch import nn


def probe_tensor_cuda():
    return torch.ones(2).cuda()


def probe_tensor_cuda_index():
    return torch.ones(2).cuda(0, True)


def probe_tensor_cuda_not_blocking():
    return torch.ones(2).cuda(non_blocking=True)


def probe_tensor_cuda_memory_format():
    return torch.ones(1, 2, 2, 2).cuda(memory_format=torch.preserve_format)


def probe_tensor_to_with_dtype():
    return torch.ones(2).to("cuda", torch.float16, True)


def probe_tensor_to_copy():
    return torch.ones(2).to(device="cuda:0", copy=True)


def probe_tensor_to_number():
    return torch.ones(2).to(0)


def probe_factory_with_number():
    return torch.ones(2, device=0)


def probe_device_by_keywords():
    return torch.ones(2, device=torch.device(type="cuda", index=0))


def probe_device_with_number():
    return torch.ones(2, device=torch.device("cuda", 0))


def probe_device_from_number():
    return torch.ones(2, device=torch.device(0))


def probe_device_compared():
    x = torch.ones(2).cuda()
    return x.device == torch.device("cuda", 0), x.device.type == "cuda", x.is_cuda, x.get_device()


def probe_device_in_text():
    x = torch.ones(2).cuda()
    return str(x.device).startswith("cuda"), f"cuda:{x.device.index}" == str(x.device)


def probe_device_joined():
    return torch.zeros(1, device="cuda" + ":" + str(0)), torch.zeros(1, device="{}:{}".format("cuda", 0))


def probe_device_context():
    with torch.device("cuda"):
        return torch.ones(2)


def probe_default_device():
    torch.set_default_device("cuda")
    return torch.ones(2), torch.get_default_device().type == "cuda"


def probe_default_tensor_type():
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    return torch.ones(2)


def probe_default_tensor_class():
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    return torch.zeros(2)


def probe_type_by_name():
    return torch.ones(2).type("torch.cuda.FloatTensor")


def probe_type_by_class():
    return torch.ones(2).type(torch.cuda.HalfTensor)


def probe_type_is_told():
    return torch.ones(2).cuda().type() == "torch.cuda.FloatTensor"


def probe_type_of_instance():
    return isinstance(torch.ones(2).cuda(), torch.cuda.FloatTensor)


def probe_tensor_class_with_sizes():
    return torch.cuda.FloatTensor(2, 3).fill_(1)


def probe_tensor_class_with_values():
    return torch.cuda.LongTensor([1, 2]), torch.cuda.ByteTensor([1])


def probe_tensor_new():
    x = torch.ones(2).cuda()
    return x.new(3).fill_(0), x.new_zeros(2), x.new_tensor([1.0], device="cuda")


def probe_module_cuda():
    return nn.Linear(2, 2).cuda().weight.is_cuda, nn.Linear(2, 2).cuda(0)(torch.ones(1, 2).cuda()).shape


def probe_module_cuda_device():
    device = torch.device("cuda:0")
    return next(nn.Linear(2, 2).cuda(device).parameters()).device.type == "cuda"


def probe_module_cuda_text():
    return nn.LSTM(2, 2).cuda(device="cuda:0").weight_ih_l0.device.type == "cuda"


def probe_module_to():
    return nn.Linear(2, 2).to(device="cuda", dtype=torch.float16).weight.dtype


def probe_module_to_number():
    return nn.Linear(2, 2).to(0).weight.is_cuda


def probe_module_to_empty():
    return nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda


def probe_module_is_made_there():
    return nn.Linear(2, 2, device="cuda", dtype=torch.float32).weight.device.type == "cuda"


def probe_module_apply():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    return [parameter.is_cuda for parameter in net._apply(lambda tensor: tensor.cuda()).parameters()]


def probe_parameter_cuda():
    return nn.Parameter(torch.ones(2)).cuda()


def probe_lazy_module():
    return nn.LazyLinear(2).cuda()(torch.ones(1, 3).cuda()).shape


def probe_packed_sequence():
    packed = nn.utils.rnn.pack_sequence([torch.ones(2)]).cuda()
    return packed.is_cuda, packed.data


def probe_packed_sequence_device():
    return nn.utils.rnn.pack_sequence([torch.ones(2)]).to("cuda").data


def probe_packed_sequence_cuda_device():
    return nn.utils.rnn.pack_sequence([torch.ones(2)]).cuda(device="cuda:0").data


def probe_untyped_storage():
    storage = torch.ones(2).untyped_storage().cuda()
    return storage.is_cuda, storage.device.type == "cuda", storage.nbytes()


def probe_typed_storage():
    storage = torch.ones(2).storage().cuda(0)
    return storage.is_cuda, len(storage)


def probe_storage_to():
    return torch.ones(2).untyped_storage().to(device=torch.device("cuda")).is_cuda


def probe_storage_class():
    return torch.cuda.FloatStorage(3).is_cuda


def probe_map_over_tensors():
    return list(map(torch.Tensor.cuda, [torch.ones(1), torch.zeros(1)]))


def probe_method_in_a_variable():
    net = nn.Linear(2, 2)
    move = net.cuda if torch.cuda.is_available() else net.cpu
    return move().weight.device.type == "cuda"


def probe_getattr():
    getattr(torch.cuda, "synchronize")()  # noqa: B009
    return getattr(torch.ones(1), "cuda")()  # noqa: B009


def probe_namespace_in_a_variable():
    mod = torch.cuda
    mod.synchronize()
    return mod.is_available(), mod.device_count()


def probe_hasattr():
    return hasattr(torch.cuda, "amp"), hasattr(torch.cuda, "Stream"), hasattr(torch.Tensor, "cuda")


def probe_names_in_a_dictionary():
    names = {True: "cuda", False: "cpu"}
    return torch.ones(1).to(names[True])


def probe_keywords_in_a_dictionary():
    keywords = {"device": "cuda", "dtype": torch.float32}
    return torch.zeros(2, **keywords)


def probe_device_is_matched():
    match torch.ones(1).cuda().device.type:
        case "cuda":
            return "card"
        case _:
            return "elsewhere"


def probe_type_is_one_of():
    return torch.ones(1).cuda().device.type in ("cuda", "mps")


def probe_dlpack():
    x = torch.ones(2).cuda()
    return torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))


def probe_cuda_array_interface():
    return hasattr(torch.ones(2), "__cuda_array_interface__")


def probe_deepcopy():
    import copy

    return copy.deepcopy(torch.ones(2).cuda())


def probe_saved_and_loaded():
    import io

    kept = io.BytesIO()
    torch.save({"x": torch.ones(2).cuda()}, kept)
    kept.seek(0)
    return torch.load(kept, map_location="cuda:0")["x"]


def probe_loaded_by_a_function():
    import io

    kept = io.BytesIO()
    torch.save(torch.ones(2), kept)
    kept.seek(0)
    return torch.load(kept, map_location=lambda storage, place: storage.cuda(0))


def probe_loaded_by_a_table():
    import io

    kept = io.BytesIO()
    torch.save(torch.ones(2).cuda(), kept)
    kept.seek(0)
    return torch.load(kept, map_location={"cuda:0": "cpu"})


def probe_scripted_function():
    def double(x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            return x * 2
        return x * 3

    return torch.jit.script(double)(torch.ones(2).cuda())


def probe_scripted_module():
    return torch.jit.script(nn.Linear(2, 2)).cuda().weight.is_cuda


def probe_traced_module():
    return torch.jit.trace(nn.Linear(2, 2).cuda(), torch.ones(1, 2).cuda())(torch.ones(1, 2).cuda()).shape


def probe_compiled():
    def work(x):
        return x * 2 if x.device.type == "cuda" else x * 3

    return torch.compile(work, backend="eager", fullgraph=True)(torch.ones(2).cuda())


def probe_gradient():
    x = torch.ones(2, device="cuda", requires_grad=True)
    (x * 3).sum().backward()
    return x.grad


def probe_double():
    return torch.ones(2, dtype=torch.float64, device="cuda")


def probe_sparse():
    return torch.eye(2).cuda().to_sparse().to_dense()


def probe_channels_last():
    return torch.ones(1, 2, 2, 2).cuda().to(memory_format=torch.channels_last).sum()
