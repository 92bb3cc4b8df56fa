"""Frames to letters: CTC, a deep bidirectional LSTM, a warm-up, the average of the weights kept."""

from importlib import import_module


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    averages = import_module(f"{lib.__name__}.optim.swa_utils")
    norms = import_module(f"{lib.__name__}.nn.utils.parametrizations")
    schedulers = lib.optim.lr_scheduler

    class Recognizer(nn.Module):
        def __init__(self, features=5, width=6, letters=4):
            super().__init__()
            convolution = nn.Conv1d(features, width, 3, stride=2, padding=1)
            self.convolution = norms.weight_norm(convolution)
            self.norm = nn.LayerNorm(width)
            self.lstm = nn.LSTM(width, 4, num_layers=2, bidirectional=True)
            self.letters = nn.Linear(8, letters)
            for name, parameter in self.lstm.named_parameters():
                if "weight_hh" in name:
                    nn.init.orthogonal_(parameter)
                elif "bias_hh" in name:
                    with lib.no_grad():
                        parameter[4:8].fill_(1.0)

        def forward(self, frames):
            x = self.convolution(frames.transpose(1, 2)).permute(2, 0, 1)
            steps, _ = self.lstm(F.gelu(self.norm(x)))
            return self.letters(steps).log_softmax(2)

    lib.manual_seed(12)
    model = Recognizer()
    average = averages.AveragedModel(
        model, multi_avg_fn=averages.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    optimizer = lib.optim.RAdam(model.parameters(), lr=3e-2)
    warm_up = schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    decay = schedulers.CosineAnnealingLR(optimizer, T_max=4)
    scheduler = schedulers.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    criterion = nn.CTCLoss(zero_infinity=True)

    def step(frames, letters, frame_counts, letter_counts):
        optimizer.zero_grad()
        loss = criterion(model(frames), letters, frame_counts, letter_counts)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        average.update_parameters(model)
        return loss, norm

    step, seen = compiled(step), []
    for _ in range(5):
        # Five letters in three frames are impossible, and count as zero.
        frame_counts, letter_counts = lib.tensor([6, 5, 3]), lib.tensor([2, 3, 5])
        seen += step(lib.randn(3, 12, 5), lib.randint(1, 4, (3, 5)), frame_counts, letter_counts)
        scheduler.step()
    average.eval()
    with lib.inference_mode():
        scores = average(lib.ones(1, 12, 5))[:, 0]
    best = lib.unique_consecutive(scores.argmax(1))
    return [
        *seen,
        *scores.amax(1),
        best[best != 0].sum(),
        average.n_averaged,
        *scheduler.get_last_lr(),
    ]
