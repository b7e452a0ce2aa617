"""Ion channels: from a patch-clamp recording to channels, rates and an idealised trace. `analyse` does it all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "analysis": ["ChannelAnswer", "analyse"],
        "recordings": ["Recording", "read_recording"],
    },
)
