// Stops one of the user's own servers from the page of a start, and shows the page anew once it has stopped.
for (const button of document.querySelectorAll('[data-stops]')) {
  button.addEventListener('click', async () => {
    const { base_url, xsrf_token } = window.jhdata;
    const stop = () =>
      fetch(`${base_url}api/${button.dataset.stops}`, { method: 'DELETE', headers: { 'X-XSRFToken': xsrf_token } });
    button.disabled = true;
    button.textContent = 'Stopping …';
    try {
      let answer = await stop();
      while (answer.status === 202) {
        await new Promise(resolve => setTimeout(resolve, 300));
        answer = await stop();
      }
      if (!answer.ok) {
        throw new Error((await answer.json()).message);
      }
      location.reload();
    } catch (error) {
      button.disabled = false;
      button.textContent = 'Stop';
      button.previousElementSibling.textContent = `Not stopped: ${error.message}`;
    }
  });
}
