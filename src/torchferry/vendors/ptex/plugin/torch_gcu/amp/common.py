"""Whether there is a card to compute in mixed precision on."""

from torchferry.rehearsal.plugin_namespace import current as _current

amp_definitely_not_available = _current().elsewhere["torch_gcu.amp.common.amp_definitely_not_available"]
